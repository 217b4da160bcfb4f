"""A plugin looked at without serving it: what it would offer, and what is wrong with its file."""
