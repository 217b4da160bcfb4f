"""The messages of Kubernetes' API as a table of facts: which fields they have, of which types, and how they merge.

`fields.txt` is made by ``tools/kubernetes_fields.py`` and never edited.
"""
