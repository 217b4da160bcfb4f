"""The configuration of the NVIDIA plugin: flags, environment and file of version v1, as NVIDIA's own plugin reads
them. Pure.

`validate` brings them together; `choose_config` names the file of a node, and `switched` changes it while the plugin
runs. Files are read by `plugbay.plugins.nvidia.platform.config_files`.
"""
