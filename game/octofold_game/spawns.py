"""Spawns new tiles from an explicit, counter-based random generator.

The random bits of a spawn depend only on the seed, the index of the game and the number of the spawn in that
game. The same seed therefore gives the same games, in any order and for any number of games at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from octofold_game.rules import flat

STARTING_TILES = 2
CHANCE_OF_FOUR = 0.1
"""Probability that a new tile is a 4."""
CHANCE_OF_TWO = 1 - CHANCE_OF_FOUR
FOUR_BELOW = round(CHANCE_OF_FOUR * 2**32)
"""A spawn is a 4 if the low 32 bits of its random word are below this number."""
_HALF = np.dtype("<u8")
_EACH_BYTE = np.uint64(0x0101010101010101)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class SpawnStream:
    """Random bits for every spawn of every game of one seed.

    Game `g` has its own splitmix64 stream (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
    Generators", OOPSLA 2014). Its initial state is output `g` of the seed's stream. Spawn `k` of the game
    uses output `k` of the game's stream.
    """

    def __init__(self, seed: int) -> None:
        """Seed the generator.

        Raises:
            ValueError: the seed is outside 0 to 2**64 - 1.
        """
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, got {seed}")
        self.seed = seed
        self._state = _mixed(np.array([seed], dtype=np.uint64))

    def bits(self, games: NDArray[np.uint64], spawns: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the random bits of spawn number `spawns[i]` in game `games[i]`: `[N] uint64`.

        Spawns 0 and 1 are the starting tiles; spawn `k + 2` follows move `k` of the game.
        """
        return bits_of(self.states(games), spawns)

    def states(self, games: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the initial states `[N]` of the streams of games, for `bits_of`."""
        return _output(self._state, games)


def bits_of(states: NDArray[np.uint64], spawns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the random bits `[N]` of spawn number `spawns[i]` in the game with initial state `states[i]`."""
    return _output(states, spawns)


def spawn(afterstates: NDArray[np.uint8], bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Add one new tile to each of `[N, 16]` or `[N, 4, 4]` afterstates.

    The tile appears in a uniformly chosen empty cell. It is a 4 with probability `CHANCE_OF_FOUR`, else a 2.

    Args:
        afterstates: exponents, each board with an empty cell.
        bits: `[N]` random words, such as `SpawnStream.bits` returns.

    Returns:
        The boards with the new tiles, `[N, 16]`.

    Raises:
        ValueError: a board has no empty cell.
    """
    cells, exponents = choose_spawns(afterstates, bits)
    boards: NDArray[np.uint8] = flat(afterstates).copy()
    boards[np.arange(len(boards)), cells] = exponents
    return boards


def choose_spawns(
    afterstates: NDArray[np.uint8], bits: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.uint8]]:
    """Return the cells `[N]` and the exponents `[N]`, 1 or 2, of the tiles that `spawn` adds.

    Raises:
        ValueError: a board has no empty cell.
    """
    # A 64-bit word holds eight cells, one per byte. One multiplication counts the empty cells up to each.
    halves = np.equal(afterstates, 0, order="C").reshape(len(bits), 16).view(_HALF) * _EACH_BYTE
    halves[:, 1] += (halves[:, 0] >> np.uint64(56)) * _EACH_BYTE
    empty_so_far = halves.view(np.uint8)
    empty = empty_so_far[:, -1]
    if not empty.all():
        raise ValueError(f"board {int(np.argmin(empty))} has no empty cell for a new tile")
    # The high half chooses the cell (with a bias below 2**-28), the low half chooses the tile.
    chosen = (bits >> np.uint64(32)) * empty >> np.uint64(32)
    cells = np.argmax(empty_so_far > chosen.astype(np.uint8)[:, None], axis=1)
    exponents = np.where((bits & np.uint64(0xFFFFFFFF)) < FOUR_BELOW, np.uint8(2), np.uint8(1))
    return cells, exponents


def starting_boards(stream: SpawnStream, games: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the starting boards of games `[N]`, with two tiles each: `[N, 16]`."""
    boards = np.zeros((len(games), 16), dtype=np.uint8)
    for number in range(STARTING_TILES):
        boards = spawn(boards, stream.bits(games, np.full(len(games), number, dtype=np.uint64)))
    return boards


def _output(state: NDArray[np.uint64], index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return output `index` of the splitmix64 stream with initial state `state`."""
    return _mixed(state + (index + np.uint64(1)) * _GAMMA)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finalizer of splitmix64, a bijection of 64-bit words."""
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
