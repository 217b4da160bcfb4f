"""A recording played to our Device Manager: plugins that answer as recorded, pods that ask as recorded."""
