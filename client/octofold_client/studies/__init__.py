"""What is made of finished games: analyses, pictures, reports, animations, play logs, tables of scores."""
