"""Commands for authors of plugins: ``serve``, ``devices``, ``check``, ``new``, and `plugbay.run` for their own files.

May live here: arguments and output. May not: code that a plugin needs; that is in `plugbay.sdk`.
"""
