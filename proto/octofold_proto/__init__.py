"""The wire protocol: protobuf messages with their generated stubs, and what client and server share.

They share the conversion between message bytes and numpy arrays, the domain errors, and the table that maps
each error to a gRPC status code.
"""
