"""Probes of containers, as the prober of a kubelet makes them: when, how, and what follows from their results."""
