"""Export: turns a trained network into one ONNX graph that plays legal 2048, checks it and publishes it.

To understand how a network becomes a graph, read in this order:

1. `description.description`: the input and the output of a network. Users give a part of it
   (`description.hints`). `description.inputs` and `description.outputs` try the network to find the rest, and
   `description.candidates` lists the descriptions that remain. Games choose one
   (`checks.description_choice`).
2. `graph.folding`: the assembly of the graph, with the legality mask and the decision rule. Its other parts
   are `graph.encoded_body` (the views, the network's input and its own nodes) and `graph.heads` (the score of
   each move, and the mean over the views). `graph.builder` builds the nodes.
3. `sources.source`: a network in the form that the export needs. `sources.described_network` makes it from an
   ONNX file (`sources.onnx_file`) or a PyTorch network (`sources.torch_sources`).
   `sources.octofold_checkpoint` and `sources.ntuple` make it from the kinds of network that Octofold trains.
   Some of these kinds have faster graphs, which are built node by node (`handmade`).
4. `precision`: `body_conversion` converts any network to 8 bits and to float16. `int8_quantization` and
   `int8_layers` make the 8-bit form of networks with a hand-made graph.
5. `checks`: `reference` computes the expected answers of a graph, and `gates` compares a graph with them.
   `views_choice` chooses the number of views by playing games.
6. `publishing`: the files of a version, its card, and the repository where a version appears complete or not
   at all.
7. `network_export`: the steps in order. `flags` defines the options, and `cli` runs the command.
"""

import os

# Without this variable, onnxruntime would report to Microsoft which models it loads.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
