"""The answers for units: what a container gets, which devices go well together, and what the plugin needs for it.

May live here: edits, preferences, checks before an answer. May not: the search for devices, serving.
"""
