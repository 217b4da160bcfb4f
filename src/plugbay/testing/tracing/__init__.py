"""Traces of plugins: a plugin behind a relay, what passed as text and as files, and files played again to a plugin."""
