"""The process of the plugin: how it ends, how it starts after a crash, and a second one beside it."""
