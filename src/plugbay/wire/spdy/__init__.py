"""One SPDY/3.1 connection, in both roles: commands with input, and forwarded ports.

Pure but for `session`: bytes of the peer go in and events come out, calls go in and bytes for the peer come out.
`frames` splits and makes frames, `header_blocks` packs headers, `connection` keeps the streams, and `session` gives
tasks the streams of a connection.

Kubernetes speaks it as ``moby/spdystream`` has it: no flow control, no priorities, no settings, every stream both ways.
"""
