"""The runtime that a node was told to use, put together with its sandboxes: a module for each.

Only `choice` knows them all, and imports the chosen one when it opens it: a node of plain processes need not hold in
memory how to speak to engines.
"""
