"""The page: a web application next to the protocols."""
