"""What export, server and client agree on: models, cards, results, and how JSON is read."""
