"""Container networks: the runtime's side of the CNI specification 0.1.0 to 1.1.0.

Plugins are programs: `chain` says what each is told, `invoke` runs one, `runtime` all of a network, and `cache`
remembers the answers where every CNI runtime looks for them. `lint` says what is wrong with configurations.

May live here: reading, checking and executing network configurations. May not: anything of Kubernetes; what a pod's
annotations and ports mean is told by `plugbay.model`, and a pod's whole network is `plugbay.runtimes.oci.network`.
"""
