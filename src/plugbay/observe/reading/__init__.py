"""Readers of the sources on a node: files, sockets and pages. Each returns what it read, or one sentence why not."""
