"""What export, server and client agree on: models, cards, and how JSON becomes typed structures."""
