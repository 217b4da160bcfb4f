"""Which pods fit on the node: predicates, what bound pods take of it, and the binder that lets pods wait in turn."""
