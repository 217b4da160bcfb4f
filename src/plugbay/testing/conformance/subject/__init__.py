"""The plugin under test: how it is started in a root of its own, what it prints, what it uses, how it ends."""
