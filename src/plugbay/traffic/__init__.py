"""Messages between a kubelet and its plugins, as values and as lines of a file.

`records` and `pod_events` are the values; `recorder` hands them on as they come; `masking` takes secrets out, which
`secret_texts` finds; `file_format` writes and reads them as lines, and `file` keeps those.

May live here: what a kubelet and its plugins say, and what becomes of pods meanwhile, for anybody who keeps or reads
it. May not: the manager and its plugins themselves, faults, relays and replays (`plugbay.testing`).
"""
