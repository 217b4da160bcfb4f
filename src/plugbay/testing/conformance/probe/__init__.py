"""The kubelet that scenes play: it registers plugins, follows their lists and calls them, and can misbehave.

Unlike `plugbay.testing.fake_kubelet` it notes what it saw and when, whatever a plugin says.
"""
