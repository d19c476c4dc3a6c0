"""Flags and environment variables: precedence, and errors about wrong values."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from octofold_game.commands.options import options_in
from octofold_game.commands.removed import REMOVED
from octofold_server.cli import main
from octofold_server.config.options import Config, ConfigError
from octofold_server.config.reading import read_config, unknown_variables


@pytest.mark.parametrize("arguments", [["--version"], ["--no-such-flag"]])
def test_a_command_that_does_not_serve_does_not_change_the_handling_of_sighup(arguments: list[str]) -> None:
    with suppress(SystemExit):
        main(arguments)
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_a_flag_takes_precedence_over_its_variable_and_the_variable_over_the_default() -> None:
    environment = {"OCTOFOLD_PORT": "1000", "OCTOFOLD_GRACE": "2.5", "OCTOFOLD_MODELS": "/elsewhere"}
    config = read_config(["--port", "2000"], environment)
    assert (config.port, config.grace, config.models) == (2000, 2.5, Path("/elsewhere"))


@pytest.mark.parametrize(
    ("arguments", "environment", "enabled"),
    [
        ([], {}, True),
        (["--no-reflection"], {}, False),
        ([], {"OCTOFOLD_REFLECTION": "false"}, False),
        (["--reflection"], {"OCTOFOLD_REFLECTION": "0"}, True),
    ],
)
def test_a_switch_is_a_flag_its_opposite_and_a_variable(
    arguments: list[str], environment: dict[str, str], enabled: bool
) -> None:
    assert read_config(arguments, environment).reflection is enabled


@pytest.mark.parametrize(
    ("flag", "value", "allowed"),
    [
        ("port", "65536", "an integer from 0 to 65535"),
        ("device", "tpu", "auto, cpu or cuda"),
        ("grace", "nan", "a number of seconds from 0 to 86400"),
        ("models", "", "a path"),
        (
            "versions",
            "newest",
            "all, latest:N, or a list such as 1,3; for a model with its own rule, append ;MODEL=RULE",
        ),
    ],
)
def test_the_error_for_a_wrong_value_names_flag_or_variable_value_and_allowed_values(
    flag: str, value: str, allowed: str
) -> None:
    variable = "OCTOFOLD_" + flag.upper().replace("-", "_")
    for arguments, environment, source in (
        ([f"--{flag}={value}"], {}, f"--{flag}"),
        ([], {variable: value}, variable),
    ):
        with pytest.raises(ConfigError) as failure:
            read_config(arguments, environment)
        assert str(failure.value).startswith(f"{source} must be {allowed}, got {value!r}")


def test_the_file_sets_options_without_flag_and_variable(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(
        'port = 1\nlanes = 2\ngrace = 2.5\nadmin = false\nversions = "latest:1"\n', encoding="utf-8"
    )
    for arguments, environment in (
        (["--config", str(file), "--port", "3"], {"OCTOFOLD_LANES": "4"}),
        (["--port", "3"], {"OCTOFOLD_LANES": "4", "OCTOFOLD_CONFIG": str(file)}),
    ):
        config = read_config(arguments, environment)
        assert (config.port, config.lanes, config.grace, config.admin) == (3, 4, 2.5, False)
        assert str(config.versions) == "latest:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "unknown key 'prot'; keys are flags of octofold-serve without the leading --"),
        ("max_calls = 1", "without the leading --; did you mean max-calls?"),
        ("port = true", "port must be an integer from 0 to 65535, got 'true'"),
        ("[port]\na = 1", "port must be a single value, got"),
        ("port = ", "is not valid TOML"),
        ("\xff", "is not valid TOML"),
    ],
)
def test_the_error_for_a_wrong_file_names_the_file_the_key_and_the_allowed_values(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "server.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as failure:
        read_config(["--config", str(file)], {})
    assert str(failure.value).startswith(str(file))
    assert message in str(failure.value)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--tls-certificate c.pem", "--tls-certificate needs --tls-key"),
        ("--tls-client-ca ca.pem", "--tls-client-ca needs --tls-certificate"),
        ("--rest-port-file port", "--rest-port-file needs --rest-port"),
        ("--port 8080 --rest-port 8080", "--port and --rest-port must not be the same, got 8080 for both"),
        ("--transport native --max-connection-age 300", "native does not support --max-connection-age"),
    ],
)
def test_options_that_contradict_each_other_are_refused(flags: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(flags.split(), {})
    assert read_config(["--port", "0", "--rest-port", "0"], {}).rest_port == 0


def test_a_misspelled_variable_is_an_error_and_unrelated_ones_are_ignored() -> None:
    with pytest.raises(ConfigError) as failure:
        read_config([], {"OCTOFOLD_MAX_BACH_SIZE": "4"})
    assert str(failure.value) == (
        "OCTOFOLD_MAX_BACH_SIZE is not a variable of octofold-serve; did you mean OCTOFOLD_MAX_BATCH_SIZE?"
    )
    environment = {
        "OCTOFOLD_QQ": "1",
        "OCTOFOLD_MAX_BATCH_SIZE": "4",
        "OCTOFOLD_TOKEN": "the client's",
        "OCTOFOLD_SERVICE_HOST": "from Kubernetes",
        "OCTOFOLD_SERVICE_PORT": "from Kubernetes",
        "PATH": "/bin",
    }
    assert read_config([], environment).max_batch_size == 4
    assert unknown_variables(environment) == ["OCTOFOLD_QQ", "OCTOFOLD_SERVICE_HOST", "OCTOFOLD_SERVICE_PORT"]


@pytest.mark.parametrize("flag", ["--tune", "--max-boards"])
def test_the_error_for_a_removed_variable_or_key_says_what_to_do_instead(flag: str, tmp_path: Path) -> None:
    instead = f"was removed: {REMOVED['octofold-serve'][flag]}"
    name = flag.removeprefix("--")
    variable = f"OCTOFOLD_{name.upper().replace('-', '_')}"
    file = tmp_path / "old.toml"
    file.write_text(f"{name} = 1\n", encoding="utf-8")
    for arguments, environment, shown in (
        ([], {variable: "1"}, variable),
        (["--config", str(file)], {}, f"{file}: {name}"),
    ):
        with pytest.raises(ConfigError) as failure:
            read_config(arguments, environment)
        assert str(failure.value).startswith(f"{shown} {instead}")


def test_the_printed_configuration_is_a_file_that_gives_the_same_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--port", "7", "--no-admin", "--versions", "latest:2", "--models", 'a "b"', "--grace", "2.5"]
    with pytest.raises(SystemExit) as leave:
        read_config([*arguments, "--print-config"], {"OCTOFOLD_OF_ANOTHER_PROGRAM": "1"})
    assert leave.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# OCTOFOLD_OF_ANOTHER_PROGRAM is not a variable of octofold-serve\n")
    file = tmp_path / "printed.toml"
    file.write_text(printed, encoding="utf-8")
    assert read_config(["--config", str(file)], {}) == read_config(arguments, {})


def test_help_explains_every_flag_and_names_the_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leave:
        read_config(["--help"], {})
    assert leave.value.code == 0
    text = capsys.readouterr().out
    groups = [option.marks["heading"] for option in options_in(Config) if option.marks["heading"]]
    assert re.findall(r"^(\w.*):$", text, re.MULTILINE) == ["options", *groups]
    for option in options_in(Config):
        assert "--" + option.name.replace("_", "-") in text
    assert "latest:N" in text
    assert "OCTOFOLD_MAX_BATCH_SIZE" in text
    assert "None" not in text
