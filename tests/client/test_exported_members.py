"""The public names of the package: all exist, all are listed, and no other name is public."""

import subprocess
import sys
from types import ModuleType

import octofold_client


def test_all_lists_exactly_the_public_members() -> None:
    public = {
        name
        for name, member in vars(octofold_client).items()
        if not name.startswith("_") and not isinstance(member, ModuleType)
    }
    assert public == set(octofold_client.__all__)


def test_importing_the_library_loads_nothing_large_no_command_line_and_no_terminal_code() -> None:
    code = "import sys, octofold_client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = set(loaded.split())
    assert not {"torch", "numba", "matplotlib", "IPython", "gymnasium", "onnxruntime", "ray"} & names
    assert not {"argparse", "rich"} & names
    rooms = {name.split(".")[1] for name in names if name.startswith("octofold_client.")}
    assert not {"cli", "loadtest"} & rooms
