"""Plugins that come and go: how they register, their versions, their lists of devices, and news about them."""
