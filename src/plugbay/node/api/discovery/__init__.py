"""Descriptions of the API for its clients: versions, groups, kinds, and the fields that objects have."""
