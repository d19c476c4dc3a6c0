"""The service: a model repository behind gRPC and HTTP, with dynamic batching.

`grpc_transport` and `http_transport` carry calls, `protocols` decode them, `admission` checks them,
`batching` forms batches, and `backends` run them. `telemetry` reports what happens to calls. `models` loads
model versions from a repository, `web` serves a web page, and `process` starts and stops the server.
"""

import os

# This disables an experiment of gRPC, which reads the variable when it is imported. With the experiment, the
# default, a pool of threads reads connections and wakes the thread that waits for calls. This takes a fifth
# of the time of a call, and gigabytes of memory under some attacks. Without it, the waiting thread itself
# reads. The entry comes last, because gRPC uses the last entry for an experiment.
EXPERIMENT = "event_engine_listener"
os.environ["GRPC_EXPERIMENTS"] = f"{os.environ.get('GRPC_EXPERIMENTS', '')},-{EXPERIMENT}".lstrip(",")
