"""One plugin on its sockets: its service, its registration, its life as a table of states, and what is counted."""
