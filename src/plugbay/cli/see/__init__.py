"""Commands that show who holds what on any node, and what is wrong there: they only look."""
