"""`octofold models`: lists the models of a server."""

from dataclasses import dataclass
from typing import Any

import msgspec
from octofold_game.commands.subcommands import Command
from octofold_game.contract.model import Card, Strength

from octofold_client.cli.shared_flags import JsonFlag, ServerFlags, print_json
from octofold_client.rpc.answers import Model, ModelVersion
from octofold_client.wording import counted


@dataclass(kw_only=True)
class Options(JsonFlag, ServerFlags):
    """Options of `octofold models`."""


def models(options: Options) -> None:
    """Print every version of every model of a server, and why a version is not ready."""
    with options.servers() as found:
        if options.json:
            print_json({"models": [_model_to_json(model) for model in found.models]})
            return
        for model in found.models:
            print(f"{model.name} (default)" if model.is_default else model.name)
            for version in model.versions:
                print(f"  {version.version}  {_describe_version(version)}")
                if version.card is not None and version.card.strength is not None:
                    print(f"     {_describe_strength(version.card.strength)}")


def _describe_version(version: ModelVersion) -> str:
    if not version.ready:
        return f"{version.state}: {version.reason}" if version.reason else version.state
    card, parts = version.card, ["ready", version.precision]
    if card is not None and card.player is not None:
        options = ",".join(f"{name}={value}" for name, value in card.player.options.items())
        parts.append(f"player {card.player.kind}" + f":{options}" * bool(options))
    if card is not None and card.weights:
        parts.append(f"{card.weights:,} weights")
    if card is not None and card.decision_rule is not None:
        views = f" of {counted(card.symmetries, 'view')}" if card.symmetries else ""
        parts.append(f"{card.decision_rule}{views}")
    parts.append(version.reason)  # a ready version also has a reason if its files are missing or damaged
    return ", ".join(part for part in parts if part)


def _describe_strength(strength: Strength) -> str:
    interval = ""
    if strength.average_interval is not None:
        low, high = strength.average_interval
        interval = f" (95% interval {low:,.0f} to {high:,.0f})"
    how = f" in {strength.precision}" if strength.precision else ""
    played = f"{counted(strength.games, 'game')}{how}, seed {strength.seed}"
    return f"average score {strength.average:,.0f}{interval}, best {strength.best:,}; {played}"


def _model_to_json(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "default": model.is_default,
        "versions": [_version_to_json(version) for version in model.versions],
    }


def _version_to_json(version: ModelVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        "state": version.state,
        "reason": version.reason or None,
        "precision": version.precision or None,
        "card": None if version.card is None else _card_to_json(version.card),
    }


def _card_to_json(card: Card) -> dict[str, Any]:
    return {
        "weights": card.weights or None,
        "decision_rule": card.decision_rule,
        "symmetries": card.symmetries or None,
        "largest_tile": 1 << card.largest_exponent,
        "player": None if card.player is None else msgspec.to_builtins(card.player),
        "value_unit": card.value_unit,
        "strength": None if card.strength is None else msgspec.to_builtins(card.strength),
    }


COMMAND = Command(
    "models",
    "list the models of a server",
    "Lists every model version of a server, with its state, its precision, and the average "
    "score in its card.",
    Options,
    models,
    examples=("", "--target server:50051", "--json"),
)
