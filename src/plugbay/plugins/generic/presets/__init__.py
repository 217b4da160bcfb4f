"""Configs to start from, one for each kind of device.

May live here: YAML texts, and their names. May not: what texts mean; that is in `config`.
"""
