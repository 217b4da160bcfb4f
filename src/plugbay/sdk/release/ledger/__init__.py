"""The uses of one resource: in memory, and in a journal that outlives the process."""
