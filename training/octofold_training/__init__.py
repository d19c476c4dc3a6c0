"""Trainers.

    cli, flags, trainers       `octofold-train`
    endgames, move_logs        what else it does: endgame tables, play logs made ready to learn from,
    tuning                     and the weights of a heuristic
    recipes                    what a recipe may say
    published/                 every network of two papers, trained on the same moves
    learners/                  the learning algorithms
      ntuple_td                  the teacher: an n-tuple network that learns by self-play
      distil                     the student: a network that learns the teacher's preferences
      device_distil              the same with everything on one GPU
      imitation                  a network that learns the moves of play logs
      dqn, lazyzero              networks that learn from their own games alone
    run/                       what every run does: options, state, reports, curves, several processes
    games/                     the games and boards that are learned from
    checkpoints                networks on disk
    networks/                  what learns
    errors                     what goes wrong in training

A file imports only from its own folder and from those below it.
"""
