"""The flag `--judge`, and the judge that it means."""

from contextlib import ExitStack
from dataclasses import dataclass

from octofold_game.commands.options import Name, option

from octofold_client.cli.arguments import ServerFlags, asked_for
from octofold_client.contenders.judges import Judge, local_judge, served_judge
from octofold_client.contenders.player_specs import is_spec


@dataclass(kw_only=True)
class JudgeFlags(ServerFlags):
    """Who judges, and the servers that may have it."""

    judge: Name = option(
        "",
        "who values the moves: a local player, such as ntuple:models/ntuple/2, or a model of the server, "
        "NAME or NAME:VERSION",
        metavar="WHO",
    )

    def judge_of(self, stack: ExitStack) -> Judge | None:
        """The judge of the flag; None without it.

        Raises:
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        if not self.judge:
            return None
        if is_spec(self.judge):
            return local_judge(self.judge)
        found = stack.enter_context(self.servers())
        return served_judge(found.client, found.select(*asked_for(self.judge)))
