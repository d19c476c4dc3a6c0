"""Measures throughput and latency of a server with closed and open loops from several processes.

`octofold loadtest` uses these parts; docs/loadtest.md shows how to use them from Python.
"""

from octofold_client.loadtest.boards import played_boards, replayed_boards
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed, Open
from octofold_client.loadtest.result import latencies_ms
from octofold_client.loadtest.steps import Limit, Plan, Step, measure_step
from octofold_client.loadtest.workers import Task, Workers

__all__ = [
    "Closed",
    "Form",
    "Limit",
    "Open",
    "Plan",
    "Step",
    "Task",
    "Workers",
    "latencies_ms",
    "measure_step",
    "played_boards",
    "replayed_boards",
]
