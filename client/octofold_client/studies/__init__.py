"""Where games are lost and how models differ: analyses, pictures and reports."""
