"""Processes that benches start and measure, so that their figures are not mixed with the bench's own.

May live here: modules for ``python -m``, which print one JSON object a line. May not: anything that judges a figure.
"""
