"""The API of a plugin author: plugin classes, health checks, modes, resources, and the problems found in them.

May live here: values and checks of what an author declares. May not: anything that runs a plugin. `plugbay` exports
from this room and from none beside it.
"""
