"""What export, server and client agree on: models, cards, results, signatures, and how JSON is read."""
