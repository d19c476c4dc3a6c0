"""Export: turns a trained network into one ONNX graph that plays legal 2048, checks it and publishes it.

To understand how a network becomes a graph, read in this order:

1. `description.description`: the input and the output of a network. `description.inference` completes the
   user's part of it (`description.hints`).
2. `graph.folding`: the whole graph in twenty lines, with legality and the decision rule. Its other pieces are
   `graph.bodies` (the network's input and its own nodes) and `graph.heads` (the value of each move).
   `graph.builder` builds the nodes.
3. `sources.source`: a network in the form that the export needs. `sources.described` makes it from an ONNX
   file or a PyTorch network (`sources.torch_sources`). `sources.octofold_checkpoint` and `sources.ntuple`
   make it from our own kinds, whose bodies can also be written node by node (`handmade`).
4. `precision`: `bodies` converts any body to 8 bits and to float16. `calibration` and `quantized` make the
   8-bit form of our own kinds.
5. `checks`: `reference` computes the expected answers of a graph, `gates` compares a graph with them, and
   `misread_detection` completes and checks a description by games.
6. `publishing`: files, metadata and the card. A version appears complete or not at all.
7. `export`: the steps in order. `flags` defines the options, and `cli` runs the command.
"""

import os

# onnxruntime reports the models that it loads to Microsoft unless this is set before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
