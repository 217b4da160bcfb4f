"""A node as an onlooker sees it: which pod holds which device, how it is, and what cannot be known.

May live here: where things are on a node, reading them without changing anything, joining what was read, and what is
made of the result for people and monitors. May not: serving plugins (`sdk`), deciding about pods (`manager`), our own
node's insides (`node`), printing (`cli`).
"""
