"""Who plays the games of an evaluation, or judges them: a served model, or a player in this process."""
