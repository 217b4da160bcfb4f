"""The configuration of the NVIDIA plugin: flags, environment and file of version v1, as NVIDIA's own plugin reads them.

`load_configuration` brings them together; `choose_config` names the file of a node, and `switched` changes it while the
plugin runs. Everything but `loading` is pure.
"""
