"""NVIDIA GPUs and their MIG devices, as NVIDIA's own device plugin serves them, and health that comes back."""
