"""The work for one pod that was admitted: its sandbox, volumes, containers, hooks, restarts and its stop."""
