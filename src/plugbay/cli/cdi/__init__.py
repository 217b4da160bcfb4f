"""The commands of ``plugbay cdi``: specs of the Container Device Interface."""
