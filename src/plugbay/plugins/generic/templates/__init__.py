"""Texts with gaps for the properties of a device: names of resources, paths, variables, words of commands. Pure.

May live here: how a template is read and filled. May not: rules, devices.
"""
