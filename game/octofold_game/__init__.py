"""2048: rules, symmetries, spawns, whole games and their replays, on batches of boards.

One move of a game, in the words used everywhere:

    s0 --(a0, r0)--> s0' --(spawn)--> s1 --(a1, r1)--> s1' --(spawn)--> s2 ...

    s    board          what the player sees
    a    move           0 up, 1 right, 2 down, 3 left; legal if it changes the board
    r    merge reward   the sum of the tiles that the slide made; the score is the sum of the rewards
    s'   afterstate     the board after the slide, before the spawn: the move decides it alone
"""
