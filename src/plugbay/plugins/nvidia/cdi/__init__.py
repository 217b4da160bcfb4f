"""CDI specs for GPUs: device nodes, the driver's files found under a root, and what makes containers find these.

`driver_files` looks at the file system, `generation` makes specs of what it found, `writing` puts them into files.
"""
