"""Trainers, one file per learning algorithm.

    ntuple_td.py    the teacher: an n-tuple network that learns by self-play
    distil.py       the student: a network that learns the teacher's preferences

The rest supports them: networks and checkpoints, the pool of positions, options, curves, progress.
"""
