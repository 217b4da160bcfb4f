"""Plugins looked at without serving them: what they would offer, what is wrong with them, what they have left."""
