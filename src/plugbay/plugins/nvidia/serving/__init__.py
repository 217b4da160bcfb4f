"""The NVIDIA plugin at work: it looks at the machine, offers what is there, and follows every change.

`source` is a node's GPUs as a source of plugins; `plugin` is one resource. What a look means is decided elsewhere:
in `config`, `devices`, `answers`, `choosing` and `health`.
"""
