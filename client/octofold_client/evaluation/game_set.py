"""A set of game indices that takes a bit for each game where they are close together."""

_BITS = 1024


class GameSet:
    """Remembers the indices of games; indices far apart take 128 bytes each."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytearray] = {}

    def add(self, game: int) -> bool:
        """Add an index; return whether it is new."""
        number, bit = divmod(game, _BITS)
        block = self._blocks.setdefault(number, bytearray())
        if not block:
            block.extend(bytes(_BITS // 8))
        place, mask = bit >> 3, 1 << (bit & 7)
        known = block[place] & mask
        block[place] |= mask
        return not known
