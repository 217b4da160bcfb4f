"""The evidence for ends of uses: checkpoints, pod lists, control groups, and when a kubelet must not be asked."""
