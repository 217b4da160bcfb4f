"""Makes OCI images of plugbay from Debian packages and wheels, without a container engine.

May live here: choosing and fetching packages, the file system made of them, layers, layouts, and what is written about
them. May not: anything that a running plugbay needs; the package never imports this one, nor this one the package.

Everything but ``apt``, ``wheels`` and ``interpreter`` works on values in memory, so that neither umask nor clock nor
place of the build can show in an image.
"""
