"""From rules and a machine to units of resources, with their IDs. Pure, but for the expansion of patterns of paths."""
