"""The service: a model repository behind gRPC, with dynamic batching.

Folders of models become sessions (`repository`, `backend`), calls become batches (`batcher`), and batches
become replies (`servicer`). It knows nothing about training or exporting, and never imports the client.
"""
