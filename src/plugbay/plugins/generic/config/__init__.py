"""The rules of the generic plugin, and the reading of the files, flags and variables that say them.

May live here: values of rules, dialects, schema, presets. May not: what is on the machine.
"""
