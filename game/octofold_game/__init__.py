"""2048 on batches of boards: rules, symmetries, spawns, whole games and their replays.

The terms for one move of a game, as used everywhere:

    s0 --(a0, r0)--> s0' --(spawn)--> s1 --(a1, r1)--> s1' --(spawn)--> s2 ...

    s    board          the board that the player sees
    a    move           0 up, 1 right, 2 down, 3 left; legal if it changes the board
    r    merge reward   the sum of the tiles that the slide merged; the score is the sum of the rewards
    s'   afterstate     the board after the slide and before the spawn; board and move determine it

`__all__` lists the public modules. Importing the package imports none of them.
"""

__all__ = [
    "contract",
    "environments",
    "episodes",
    "play_logs",
    "player",
    "referee",
    "replays",
    "rules",
    "spawns",
    "symmetries",
]
