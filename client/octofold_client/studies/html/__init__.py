"""One HTML file that shows results, with games to click through."""
