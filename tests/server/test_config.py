"""Flags and environment variables: which wins, and what is said about a wrong value."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from octofold_server.config import Config, ConfigError, read_config


def test_nothing_given_is_the_defaults() -> None:
    assert read_config([], {}) == Config()


def test_a_flag_wins_over_its_variable_which_wins_over_the_default() -> None:
    environment = {"OCTOFOLD_PORT": "1000", "OCTOFOLD_GRACE": "2.5", "OCTOFOLD_MODELS": "/elsewhere"}
    config = read_config(["--port", "2000"], environment)
    assert (config.port, config.grace, config.models) == (2000, 2.5, Path("/elsewhere"))


@pytest.mark.parametrize(
    ("arguments", "environment", "enabled"),
    [
        ([], {}, True),
        (["--no-reflection"], {}, False),
        ([], {"OCTOFOLD_REFLECTION": "false"}, False),
        ([], {"OCTOFOLD_REFLECTION": "0"}, False),
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
        ("port", "http", "an integer from 0 to 65535"),
        ("device", "tpu", "auto, cpu or cuda"),
        ("precision", "int4", "auto, fp32, int8 or fp16"),
        ("lanes", "-1", "an integer from 0 to 1024"),
        ("queue-capacity", "0", "an integer from 1 to 100000000"),
        ("grace", "nan", "seconds from 0 to 86400"),
        ("models", "", "a path"),
        ("host", "", "a name"),
    ],
)
def test_a_wrong_value_names_the_flag_or_variable_the_value_and_what_is_allowed(
    flag: str, value: str, allowed: str
) -> None:
    variable = "OCTOFOLD_" + flag.upper().replace("-", "_")
    for arguments, environment, source in (
        ([f"--{flag}={value}"], {}, f"--{flag}"),
        ([], {variable: value}, variable),
    ):
        with pytest.raises(ConfigError) as failure:
            read_config(arguments, environment)
        assert str(failure.value) == f"{source}: {value!r} is not allowed; it takes {allowed}"


def test_a_wrong_switch_in_the_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="OCTOFOLD_REFLECTION: 'maybe'"):
        read_config([], {"OCTOFOLD_REFLECTION": "maybe"})


def test_help_explains_every_flag_and_names_the_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leave:
        read_config(["--help"], {})
    assert leave.value.code == 0
    text = capsys.readouterr().out
    for option in fields(Config):
        assert "--" + option.name.replace("_", "-") in text
    assert "OCTOFOLD_MAX_BATCH_SIZE" in text
