"""The service: a model repository behind gRPC, with dynamic batching.

`grpc_transport` and `http_transport` carry calls, `protocols` decode them, `admission` checks them,
`batching` forms batches, and `backends` run them. `telemetry` reports what happens to calls. `models` loads
model versions from a repository, `web` has the page, and `process` starts and stops the server.
"""

import os

# gRPC reads this when it is loaded: its C core then reads in the thread that waits for calls. By default, a
# pool of threads reads and wakes that thread. This is a fifth of the cost of a call, and gigabytes of memory
# under some attacks.
# The last entry for an experiment counts.
EXPERIMENT = "event_engine_listener"
os.environ["GRPC_EXPERIMENTS"] = f"{os.environ.get('GRPC_EXPERIMENTS', '')},-{EXPERIMENT}".lstrip(",")
