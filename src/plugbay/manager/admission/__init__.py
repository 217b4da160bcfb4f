"""Admission of one pod: which devices it gets, on which NUMA nodes, and which calls its plugins get on the way."""
