"""The files of the machine: signs of its platform, roots of the driver, IMEX channels, and configuration files.

Everything is looked for under a root that is handed in; what it means is decided elsewhere.
"""
