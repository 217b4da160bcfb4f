"""The kubelet's side of the socket: endpoints, device state, admission, durable assignments.

`admission` and `state` decide and hold; `endpoint`, `registration`, `store` and `manager` perform the effects. One
event loop owns the state: every change to it is a plain method call without an await inside.

May live here: what a kubelet's Device Manager does. May not: pods as people write them (`node`), the plugin's side
(`sdk`), ready-made plugins.
"""
