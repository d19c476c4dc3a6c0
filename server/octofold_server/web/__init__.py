"""The page: a web application beside the protocols."""
