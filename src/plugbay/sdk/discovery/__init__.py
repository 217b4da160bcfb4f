"""Keeping a plugin's list of devices true: runs of ``discover``, why there is another run, and what changed."""
