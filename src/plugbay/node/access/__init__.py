"""The way from the network to a node's API: certificate, token, kubeconfig, and the check of each request.

May live here: what makes a client trust the node, and the node a client. May not: what the API answers.
"""
