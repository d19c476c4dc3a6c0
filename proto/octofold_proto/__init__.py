"""The wire: protobuf messages with their generated stubs, and what both ends must agree on about them.

Here live the conversion between message bytes and numpy, the domain errors, and the one table that gives
each its status code. Nothing here knows about models, batching or how a game is played.
"""
