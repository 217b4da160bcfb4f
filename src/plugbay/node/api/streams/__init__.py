"""Bytes to and from containers: logs, commands and their frames."""
