"""Any trained network as one ONNX graph that takes raw boards and plays legal 2048, checked and published.

To understand how a network becomes a graph, read in this order:

1. `description.description`: what a network reads and what it answers. `description.inference` completes what
   a user says of it (`description.hints`); `description.encoding` defines the inputs in numpy.
2. `graph.folding`: the whole graph in twenty lines. Its pieces, from the board to the move:
   `graph.encodings` (the network's input), `graph.bodies` (the network's own nodes), `graph.heads` (what
   moves are worth), `graph.views` (symmetries), `graph.decision` (the rule) and `graph.legality`.
   `graph.builder` writes them down.
3. `sources.source`: what the export needs of a network. `sources.described` makes it from anybody's PyTorch
   or ONNX, `sources.checkpoint` and `sources.ntuple` from ours. These differ in one thing: their bodies have
   forms that are written node by node (`handmade`).
4. `precision`: bodies in 8 bits and in float16. `static_int8` and `half_body` work for any body; the other
   files make the 8-bit form of our own kinds.
5. `checks`: `reference` computes what a graph must answer, `gates` compare, `sense` finds out wrong
   descriptions.
6. `publishing`: files, metadata and the card; versions appear whole or not at all.
7. `export`: the steps in order. `cli` has the flags, `commands` what they start.
"""
