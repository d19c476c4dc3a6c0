"""The flags of `octofold-export`: help without torch, and one line for wrong usage."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from octofold_export import cli
from octofold_export.cli import main
from onnx import numpy_helper
from support.linear_onnx import product, save

RECORD = ["--record-strength", "a", "--name", "b", "--version", "1"]
EXTEND = ["--checkpoint", "a", "--name", "b", "--version", "1", "--extend"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "nothing to export"),
        (["--weights", "net.pt", "--name", "a"], "--weights net.pt needs --module package.module:callable"),
        (
            [__file__, "--name", "a"],
            "put the flag for this kind of file before it: --onnx, --torchscript",
        ),
        (["--checkpoint", "a"], "--name is required"),
        (["--checkpoint", "a", "--name", "../small"], "got '../small'"),
        (["--checkpoint", __file__, "--name", "b"], "test_flags.py; for a file of torch.save, use --weights"),
        (["--onnx", "a", "--name", "b", "--type", "int9"], "--type is 'int9', which is none of"),
        (
            ["--checkpoint", "a", "--name", "b", "--precisions", "int8"],
            "must be a list of fp32 and optionally",
        ),
        (["--record-strength", "a", "--name", "b"], "--record-strength needs --version"),
        ([*RECORD, "--accept"], "--accept applies only to an export; --record-strength exports nothing"),
        ([*EXTEND, "--rule", "mean"], "--rule applies only to a new version; --extend publishes none"),
        (
            ["--player", "a", "--name", "b", "--boards", "c"],
            "--boards applies only to networks, not to --player",
        ),
        (
            ["--ntuple", "a", "--name", "b", "--input", "tiles"],
            "--ntuple needs no description: remove the flags that describe the network",
        ),
        (
            ["--checkpoint", "a", "--name", "b", "--no-worse-than", "5%", "--limit", "10"],
            "--limit: the number of games must be above 10, got 10: the first 10 games only set the cap",
        ),
        ([*RECORD, "--boards", "d"], "--boards applies only to an export; --record-strength exports nothing"),
        (["--record-strength", "a", "--checkpoint", "b", "--name", "c"], "cannot be combined with"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_gives_one_line_and_exit_code_2(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(flags)
    assert raised.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message in line


def without(*modules: str) -> str:
    """Return a program that runs the command as if `modules` were not installed."""
    return f"""
import sys
for module in {modules}:
    sys.modules[module] = None
from octofold_export.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    program = without("torch", "onnx", "onnxruntime", "numba")
    return subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, text=True)


def test_help_needs_neither_torch_nor_onnx() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--record-strength" in done.stdout


def test_a_network_in_an_onnx_file_needs_no_torch(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    weights = numpy_helper.from_array(random.normal(size=(16, 4)).astype(np.float32), "weights")
    save(tmp_path / "linear.onnx", [product()], [weights], shape=("N", 16))
    np.save(tmp_path / "boards.npy", random.integers(0, 11, (600, 16), np.uint8))
    flags = "--onnx linear.onnx --name linear --accept --input exponents --layout flat --answer policy_logits"
    flags += " --symmetries 1 --precisions fp32,fp16 --boards boards.npy"
    command = [sys.executable, "-c", without("torch"), *flags.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "models/linear/1\n"), done.stderr


def test_an_export_without_its_packages_says_what_to_install() -> None:
    done = run("--checkpoint", "a", "--name", "b")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.partition(" is not installed; run ")[2].endswith("[export]'")


def test_an_export_without_enough_memory_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_out_of_memory(*_: object) -> Path:
        raise MemoryError

    monkeypatch.setattr(cli, "_run", run_out_of_memory)
    assert main(["--checkpoint", "a", "--name", "b"]) == 1
    assert capsys.readouterr().err == "octofold-export: out of memory; nothing was published\n"
