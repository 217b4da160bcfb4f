"""The checks: pure functions from evidence to what they find, a module for each subject."""
