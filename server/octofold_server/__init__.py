"""The service: a model repository behind gRPC, with dynamic batching.

`grpc_transport` and `http_transport` carry calls, `protocols` decode them, `admission` checks them,
`batching` forms batches, and `backends` run them. `telemetry` reports what happens to calls. `models` loads
model versions from a repository, `web` has the page, and `process` starts and stops the server.
"""

import os

# gRPC reads this variable when it is loaded. Without the experiment, its C core reads connections in the
# thread that waits for calls. With it, which is gRPC's default, a pool of threads reads and wakes that
# thread. That takes a fifth of the time of a call, and gigabytes of memory under some attacks. If the
# variable names an experiment twice, its last entry counts.
EXPERIMENT = "event_engine_listener"
os.environ["GRPC_EXPERIMENTS"] = f"{os.environ.get('GRPC_EXPERIMENTS', '')},-{EXPERIMENT}".lstrip(",")
