"""Frozen values of the domain, checked when they are made.

May live here: dataclasses of tuples, frozensets and mappings, enums, and the rules that make a value legal.
May not: I/O, clocks, protobuf, anything that waits.
"""
