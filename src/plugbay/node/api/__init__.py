"""The control socket: v1-shaped objects over HTTP, for the command line and for other clients that know v1.

May live here: requests to calls, values to answers. May not: decisions about pods.
"""
