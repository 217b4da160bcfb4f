"""The store of record: the database, its tables, and the commits that admission and release make in it."""
