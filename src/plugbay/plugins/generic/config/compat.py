"""Switches to what squat's plugin does, where ours does better by default. Pure."""

from __future__ import annotations

from enum import Enum


class Compat(Enum):
    """Old behaviour that a config asks for.

    Source: squat/generic-device-plugin 0.2.
    """

    SQUAT = "squat"
    """All of the others."""
    USB_DEVICE_IDS = "usbDeviceIds"
    """IDs of USB units are made of the paths of their raw nodes, which change when a stick is plugged in again."""
    USB_BUNDLES = "usbBundles"
    """All matches of a group of USB devices are one unit unless ``bundle`` says otherwise."""
    DECIMAL_USB_IDS = "decimalUsbIds"
    """A USB ID without quotes that looks like a number is the ID with that number, not with those digits."""
    ANY_FILE = "anyFile"
    """Files that are not device nodes are devices, too, unless ``anyFile`` says otherwise."""
    SHARED_PATHS = "sharedPaths"
    """Several resources may have the same file unless ``shared`` says otherwise."""
