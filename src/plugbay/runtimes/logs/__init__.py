"""Logs of containers: files that are bounded and read as one, and the lines in them."""
