"""Targets: the words with which ``serve``, ``devices`` and ``cdi generate`` are told which plugins they are about.

May live here: how a target is parsed and loaded, and a module for each target that comes with plugbay. May not: a
command.
"""
