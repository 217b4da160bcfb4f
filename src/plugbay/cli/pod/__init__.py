"""The commands of ``plugbay pod``, each in a module of its own."""
