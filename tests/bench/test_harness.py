"""`bench/harness.py` stops the trainings of a checkout while a command measures, and lets them go on."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil

HARNESS = Path(__file__).parents[2] / "bench" / "harness.py"
TRAINING = """
import sys
from pathlib import Path
from octofold_training.run.folder import exclusive_folder
with exclusive_folder(Path(sys.argv[1])):
    print("training", flush=True)
    sys.stdin.read()
"""


def test_trainings_stand_still_while_a_command_runs_and_go_on_after_it(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    shutil.copy(HARNESS, tmp_path / "bench")
    (tmp_path / "runs" / "ended").mkdir(parents=True)
    (tmp_path / "runs" / "ended" / "lock").write_text("1")  # of a process that has long ended
    command = [sys.executable, "-c", TRAINING, str(tmp_path / "runs" / "mine")]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as training:
        try:
            assert training.stdout
            assert training.stdout.readline() == "training\n"
            state = f"import psutil; print(psutil.Process({training.pid}).status())"
            command = [sys.executable, "bench/harness.py", sys.executable, "-c", state]
            measured = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
            assert measured.stdout == "stopped\n"
            assert psutil.Process(training.pid).status() != "stopped"
        finally:
            training.send_signal(signal.SIGCONT)
            training.communicate("")
