"""Bytes to and from containers: logs, commands and forwarded ports."""
