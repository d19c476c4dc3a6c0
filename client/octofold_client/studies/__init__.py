"""Studies of finished games: analyses, pictures, reports and play logs."""
