"""Trainers of our own networks.

    cli                        `octofold-train`
    train_command, endgames    its commands: train a teacher or a student, make endgame tables
    program                    the parts that `octofold-train` and `octofold-papers` share
    recipes                    TOML files with the options of a training
    learners/                  the learning algorithms
      ntuple_td                  the teacher: an n-tuple network that learns by self-play
      distil                     the student: a network that learns the teacher's preferences
      device_distil              distil with games, teacher and student on one GPU
    run/                       parts of every run: options, state, reports, curves
    games/                     the games and boards to learn from
    checkpoints                networks on disk
    networks/                  the networks that learn
    errors                     the base class of training errors

A file imports only from its own folder and from the folders below it in this list.
"""
