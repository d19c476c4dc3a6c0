"""Boards and figures as pictures and text: one palette for every program that draws."""
