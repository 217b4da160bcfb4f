"""Chaos: random faults around a plugin by seed, what has to hold afterwards, and short reproductions of what does not.

`steps`, `planning` and `shrinking` decide; `scene` and `shaking` do.
"""
