"""Scratch disks: loop devices on sparse files, whole or in partitions, empty whenever they are given away."""
