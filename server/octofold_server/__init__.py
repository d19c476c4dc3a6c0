"""The service: a model repository behind gRPC, with dynamic batching.

`protocols` decode requests, `admission` checks them, `batching` forms batches, and `backends` run them.
`models` loads model versions from a repository, and `process` starts and stops the server.
"""
