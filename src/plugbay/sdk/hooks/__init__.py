"""Calls of what an author wrote: in threads or on the loop, one after the other, and what a failure is turned into."""
