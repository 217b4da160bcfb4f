"""Values by their types: compared, merged, reduced. Pure.

`types` says what is owned whole and what tells items apart, `builtin_types` and `structural` make types of what an API
server and a definition of custom resources say.
"""
