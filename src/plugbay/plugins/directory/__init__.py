"""The files of a directory as devices: the gopher tutorial, and any device that a file can stand for."""
