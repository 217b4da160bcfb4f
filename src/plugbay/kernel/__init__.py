"""Linux as we need it: what the kernel tells about files and devices. Nothing here knows of Kubernetes."""
