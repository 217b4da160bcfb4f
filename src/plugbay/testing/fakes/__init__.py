"""A kubelet and plugins that tests script: one side of the socket each."""
