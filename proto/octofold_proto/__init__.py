"""The wire protocol: protobuf messages with their generated stubs, and code that client and server share.

The shared code converts between message bytes and numpy arrays, defines the domain errors, and maps each
error to a gRPC status code.
"""
