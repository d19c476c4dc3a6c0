"""The formats that export, server and client share: models, cards, results. Also reads JSON."""
