"""Calls at the same time, a kubelet that does not read; the amounts that a plugin uses, with restarts and idle."""
