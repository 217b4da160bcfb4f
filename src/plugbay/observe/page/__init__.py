"""The page of a node: its devices as tiles, with their pods, live, and as a table without JavaScript.

May live here: the page's rows, history and events, how they are served, and the files that a browser loads. May not:
reading a node (`observe.reading`), commands.
"""
