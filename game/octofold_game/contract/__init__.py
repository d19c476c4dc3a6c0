"""The formats shared by export, server and client: models, cards, results, and reading of JSON."""
