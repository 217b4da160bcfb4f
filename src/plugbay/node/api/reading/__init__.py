"""Objects as clients read them: lists, watches, tables, each kind of objects in the same way."""
