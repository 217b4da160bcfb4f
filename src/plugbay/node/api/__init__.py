"""The control socket: v1-shaped objects over HTTP, for the command line and for anyone with a v1 client's habits.

May live here: requests to calls, values to answers. May not: decisions about pods.
"""
