"""Recordings of a node that runs: its plugins' traffic and its pods' admissions, for a file or for a client."""
