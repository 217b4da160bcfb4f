"""Commands that look at any kubelet, stock or our own: ``checkpoint`` and ``podresources``."""
