"""Trainers, one file per learning algorithm.

    ntuple_td.py    the teacher: an n-tuple network that learns by self-play
    distil.py       the student: a network that learns the teacher's preferences
    value_td.py     another student: a network that learns what afterstates are worth
    ppo.py          a student that goes on learning from its own games

The rest supports them: networks and checkpoints, the pool of positions, options, long runs, curves, progress.
"""
