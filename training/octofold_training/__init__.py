"""Trainers of our own networks.

    cli                        `octofold-train`
    train_command, endgames    what its commands do: train a teacher or a student, make endgame tables
    program                    what `octofold-train` and `octofold-papers` share
    recipes                    TOML files with the options of a training
    learners/                  the learning algorithms
      ntuple_td                  the teacher: an n-tuple network that learns by self-play
      distil                     the student: a network that learns the teacher's preferences
      device_distil              the same with everything on one GPU
    run/                       what every run does: options, state, reports, curves
    games/                     the games and boards that are learned from
    checkpoints                networks on disk
    networks/                  what learns
    errors                     what goes wrong in training

A file imports only from its own folder and from those below it.
"""
