"""The commands of ``plugbay node``, and ``plugbay events``, each in a module of its own."""
