"""Kinds of objects that are stored as clients write them: their rules, and how they are made, changed and deleted.

May live here: what an API server checks and fills in. May not: what acts on the objects.
"""
