"""Devices that engines inject by name: what of a device goes into a CDI spec, what Allocate answers, the spec file."""
