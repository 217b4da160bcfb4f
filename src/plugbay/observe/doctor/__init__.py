"""`plugbay doctor`: what is wrong with devices on a node, and what to do about it.

`evidence` reads everything once, `findings` are pure functions of what was read, `catalogue` lists them.
"""
