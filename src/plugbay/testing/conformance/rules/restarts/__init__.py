"""The kubelet, a connection, a stream or the plugin's own socket goes away, and the plugin comes back."""
