"""The devices of each resource, from what the driver told and what the configuration says. Pure."""
