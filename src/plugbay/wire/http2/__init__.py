"""One HTTP/2 connection as RFC 9113 has it, in both roles, without any input or output of its own.

Bytes of the peer go in and events come out; calls go in and bytes for the peer come out: `connection`. Requests and
responses travel as gRPC needs them, with prior knowledge: there is no upgrade from HTTP/1.1, no push, no priority.

`codes`, `frames`, `settings` and `events` are the words; `stream_states` is the table of what may happen to a stream,
and `streams` keeps those of a connection; `windows` counts flow control, `budgets` what a peer may do that is of no
use; `header_blocks` reads and writes fields and `messages` checks them; `frame_splitter`, `receiving`, `penalties` and
`sending` do the work.

May live here: rules of HTTP/2 and HPACK. May not: asyncio, sockets, a clock of its own, gRPC.
"""
