"""Join what sources tell about a node. Pure.

For the holder of a device, our own node's word comes first, then PodResources, which is asked live, then the
checkpoint, which a kubelet writes when it gives devices and not when it frees them. For health, the kubelet's word
comes first, as it decides what pods get: by our node, by the allocatable devices, by those registered in the
checkpoint; a plugin's page adds reason, message and moment. A source that says otherwise is not heeded, and stays
visible as a disagreement.
"""
