"""The service: a model repository behind gRPC, with dynamic batching.

`grpc_transport` and `http_transport` carry calls, `protocols` decode them, `admission` checks them,
`batching` forms batches, and `backends` run them. `telemetry` reports what happens to calls. `models` loads
model versions from a repository, `web` has the page, and `process` starts and stops the server.
"""
