"""A node's view as metrics for Prometheus, kept up to date, and served while the kubelet is away."""
