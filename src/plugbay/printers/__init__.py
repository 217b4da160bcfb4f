"""v1 objects in the words of kubectl's tables, for the API and for our own commands: pure.

May live here: reading objects made of plain JSON values, ages, states, columns. May not: terminals, widths, colours
(see `plugbay.cli.printing`).
"""
