"""ReplicaSets, Deployments, DaemonSets, their revisions, and Jobs: fields, defaults, checks and rows. Pure."""
