"""The rebuilt tables: each network learns and plays despite interruptions, and is shown beside published
figures."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_export.checks.reference import plain_head, reference_answers
from octofold_export.sources.octofold_checkpoint import one_hot_description
from octofold_game.episodes import Episodes
from octofold_papers import cli
from octofold_papers.supervised.comparison import extrapolate, write_report
from octofold_papers.supervised.published import ROWS, TILES
from octofold_papers.supervised.results import Result
from octofold_papers.supervised.shards import ShuffledMoves
from octofold_papers.supervised.table import OutOfTime, Table, stages
from octofold_training.errors import TrainingError
from octofold_training.games.playing import NetworkPlayer, play
from octofold_training.networks.build import build, count_weights
from support.published_tables import SMALL, TINY, convert_games, table_of

SYMMETRIC = {"kind": "symmetric_cnn", "layers": 2, "channels": 4, "exponents": 16}
WEIGHTS = {
    **{"CNN4": 820_228, "CNN5": 818_074, "CNN5_sym": 875_794, "MLP4": 823_388, "MLP5": 3_807_236},
    **{"symmetric-100": 218_104, "symmetric-200": 756_204},
    **{"symmetric-300": 1_614_304, "symmetric-400": 2_792_404},
}


def test_the_rows_are_the_published_networks() -> None:
    counts = {name: count_weights(build(row.architecture)) for name, row in ROWS.items()}
    assert counts.items() >= WEIGHTS.items()
    assert all(810_000 < counts[f"cnn-{layers}"] < 830_000 for layers in range(2, 10))


def test_the_published_figures_agree_with_each_other() -> None:
    """The report gives the largest tiles of its 1,000 games, rounded, and the share that reaches 2048."""
    for row in ROWS.values():
        assert row.main_views == (1 if row.name.startswith("symmetric") else 8)
        for figures in row.published.values():
            assert 0 < figures.average < figures.best
            if row.paper == "report":
                assert sum(figures.largest) == 1000
                assert sum(figures.largest[TILES.index(2048) :]) == pytest.approx(
                    1000 * figures.reaches_2048, abs=10
                )


@pytest.mark.parametrize("architecture", [SMALL, SYMMETRIC], ids=["mlp", "symmetric_cnn"])
def test_eight_views_vote_like_the_exported_graph(architecture: dict[str, Any]) -> None:
    torch.manual_seed(4)
    network = build(architecture).eval()
    boards = np.concatenate([game.boards for game in _positions()])

    def evaluate(views: np.ndarray) -> np.ndarray:
        one_hot = torch.eye(16)[torch.from_numpy(views).long()].permute(0, 2, 1).reshape(-1, 16, 4, 4)
        answers: np.ndarray = network(one_hot).detach().double().numpy()
        return answers

    head = plain_head(one_hot_description(16), evaluate)
    for views in (1, 8):
        expected = reference_answers(head, boards, "vote", views)
        found = NetworkPlayer(network, architecture, views)(boards)
        decided = expected.margins > expected.undecided
        assert decided.mean() > 0.9
        assert (found == expected.answers.move)[decided].all()


def _positions() -> list[Episodes]:
    """Return unfinished games after 5, 20, 40 and 60 moves."""
    random, found = np.random.default_rng(1), []
    for moves in (5, 20, 40, 60):
        episodes = Episodes(moves, range(50))
        for _ in range(moves):
            chances = random.random(episodes.legal.shape) * episodes.legal
            episodes.step(chances.argmax(axis=1).astype(np.uint8))
        found.append(episodes)
    return found


def test_games_are_those_of_the_seed_whatever_the_number_in_flight() -> None:
    torch.manual_seed(4)
    player = NetworkPlayer(build(SMALL).eval(), SMALL)
    scores = []
    for at_once in (2, 7):
        ended = [game for game in play(player, 1, range(7), at_once) if game is not None]
        scores.append({game.game: game.score for game in ended})
    assert scores[0] == scores[1]
    assert scores[0].keys() == set(range(7))


@pytest.fixture(scope="module")
def whole(moves: ShuffledMoves, tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, list[float], Path]:
    """An uninterrupted table, its reported shares of progress, and its folder."""
    shares: list[float] = []
    folder = tmp_path_factory.mktemp("whole")
    table = table_of(moves, folder, TINY[:1], lambda _, share: shares.append(share), games=1)
    table.run()
    return table, shares, folder


def test_every_network_learns_from_the_same_positions_and_plays_after_each_stage(
    whole: tuple[Table, list[float], Path],
) -> None:
    table, shares, folder = whole
    results = table.results()
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    found = [(each.positions, each.views, each.games) for each in results]
    assert found == [(stage, views, 1) for stage in (1000, 2000, 4000, 8000) for views in (8, 1)]
    assert all(0 < each.accuracy < 1 and sum(each.largest) == pytest.approx(1, abs=1e-3) for each in results)

    report = write_report(results, folder)
    (line,) = [line for line in report.splitlines() if line.startswith("| MLP4 | ") and "31,339" in line]
    assert "298,908" in line
    assert "| published | 8 | 29.9% | 13.6% |" in report
    written = json.loads((folder / "results.json").read_text())
    assert [each["average"] for each in written] == [each.average for each in results]
    assert (folder / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_a_larger_table_continues_the_stages_of_a_smaller_one() -> None:
    assert stages(8) == [8]
    assert stages(4000) == [1000, 2000, 4000]  # a batch has 1,000 moves
    assert stages(9000) == [2000, 3000, 5000, 9000]
    assert stages(16_000_000) == [1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000]
    assert stages(50_000_000) == [*stages(16_000_000), 32_000_000, 50_000_000]


def test_a_power_law_is_extrapolated_to_the_published_number_of_positions() -> None:
    def result(positions: int, average: float, error: float = 100.0) -> Result:
        shares = (0.0,) * len(TILES)
        return Result("CNN5", positions, 8, 1, 100, average, error, 1, 0.0, shares, 0.6, 1.0)

    exact = [result(stage, 5 * stage**0.5) for stage in stages(16_000_000)]
    found = extrapolate(exact)
    assert found is not None
    assert found.low < found.average < found.high
    assert found.average == pytest.approx(5 * 6e8**0.5, rel=1e-3)
    scattered = [
        result(each.positions, each.average * (1.1 if n % 2 else 0.9)) for n, each in enumerate(exact)
    ]
    wider = extrapolate(scattered)
    assert wider is not None
    assert wider.high / wider.low > found.high / found.low
    assert extrapolate(exact[:3]) is None


def test_a_table_that_is_stopped_at_any_point_ends_the_same(
    moves: ShuffledMoves, whole: tuple[Table, list[float], Path], tmp_path: Path
) -> None:
    calls = 0

    def interrupt(_line: str, _share: float) -> None:
        nonlocal calls
        calls += 1
        if calls in (1, 5, 60, 150):
            raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            table_of(moves, tmp_path, TINY[:1], interrupt, games=1).run()
    with pytest.raises(OutOfTime):
        table_of(moves, tmp_path, TINY[:1], games=1).run(minutes=0.0)
    parts = table_of(moves, tmp_path, TINY[:1], interrupt, games=1)
    parts.run()
    assert not table_of(moves, tmp_path, TINY[:1], games=2).results()
    for mine, theirs in zip(parts.results(), whole[0].results(), strict=True):
        assert (mine.average, mine.positions, mine.views) == (theirs.average, theirs.positions, theirs.views)


def test_a_larger_table_skips_the_stages_that_a_network_has_passed(
    moves: ShuffledMoves, tmp_path: Path
) -> None:
    table_of(moves, tmp_path, TINY[:1], games=1, positions=8000).run()
    larger = table_of(moves, tmp_path, TINY[:1], games=1, positions=24_000)
    larger.run()
    reached = {each.positions for each in larger.results()}
    assert reached == {1000, 2000, 4000, 8000, 12_000, 24_000}  # without the stages 3,000 and 6,000
    assert not list(tmp_path.rglob("*.unfinished"))
    with pytest.raises(TrainingError, match="has already learned from 24,00"):
        table_of(moves, tmp_path, TINY[:1], games=1, positions=9000).run()


def test_the_command_ends_in_time_and_says_how_to_continue(
    moves: ShuffledMoves, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "table")
    command = ["table", "--moves", str(moves.folder), "--out", folder, "--device", "cpu"]
    assert cli.main([*command, "--positions", "16", "--games", "1", "--rows", "MLP4", "--minutes", "0"]) == 0
    assert "out of time; the same command continues" in capsys.readouterr().err


def test_the_error_for_a_full_disk_names_the_file_of_the_games(
    moves: ShuffledMoves,
    tmp_path: Path,
    full_disk: Callable[[int], AbstractContextManager[None]],
) -> None:
    table_of(moves, tmp_path, TINY[:1], games=1, positions=2000).run()
    games = tmp_path / "MLP4" / "1000" / "games-8.jsonl"
    table = table_of(moves, tmp_path, TINY[:1], games=2, positions=2000)
    with full_disk(games.stat().st_size + 10), pytest.raises(OSError, match="too large") as failure:
        table.run()
    assert str(failure.value.filename) == str(games)


def test_other_moves_and_damaged_games_are_refused(moves: ShuffledMoves, tmp_path: Path) -> None:
    table = table_of(moves, tmp_path / "table", TINY[:1], games=1, positions=1)
    table.run()
    games = tmp_path / "table" / "MLP4" / "1" / "games-8.jsonl"
    kept = games.read_text()
    games.write_text('{"game": 0, "sco')  # an incomplete line, so the game is played again
    table.run()
    assert games.read_text() == kept
    games.write_text("rubbish\n")
    for refuses in (table.run, table.results):
        with pytest.raises(TrainingError, match=r"games-8\.jsonl is damaged .* delete it"):
            refuses()
    games.write_text(kept)
    history = tmp_path / "table" / "MLP4" / "run" / "history.jsonl"
    history.write_text(history.read_text().replace('"accuracy"', '"kl"'))
    with pytest.raises(TrainingError, match=r"history\.jsonl is damaged or another kind of file: accuracy"):
        table.results()
    (tmp_path / "other").mkdir()
    convert_games(tmp_path / "other", seed=4)
    with pytest.raises(TrainingError, match="networks that learned from other moves"):
        table_of(ShuffledMoves(tmp_path / "other" / "converted"), tmp_path / "table")
