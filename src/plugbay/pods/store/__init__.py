"""Pods and events on disk: the format of rows, and the database that holds them."""
