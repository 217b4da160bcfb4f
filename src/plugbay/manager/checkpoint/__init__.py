"""The file ``kubelet_internal_checkpoint``: written as a view of the state, and read where another program wrote it."""
