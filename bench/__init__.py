"""Figures we promise, measured: ``make bench``, or ``make bench NAME=plugin`` for one bench.

A bench is a module here with an asynchronous generator ``measure(pace)``. Targets are for two cores that are idle
otherwise. Benches may sleep: letting time pass is what some of them measure.
"""
