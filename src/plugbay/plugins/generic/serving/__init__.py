"""The generic plugin at work: it looks at the machine, offers what the rules select, and follows every change.

`source` is the machine as a source of plugins; `plugin` is one resource. What a look means is decided elsewhere: in
`config`, `selecting` and `answers`.
"""
