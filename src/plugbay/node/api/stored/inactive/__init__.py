"""Kinds that nothing on a node acts on: they are stored so that charts apply, and every write says so."""
