"""Server-side apply: which client owns which field of an object, and what an applied configuration makes of one. Pure.

`elements` and `sets` are the form ``FieldsV1``, `typed` goes through values by their types, `updating` is the algorithm
of structured-merge-diff, `managers` the entries of ``metadata.managedFields``, `field_manager` what an API server puts
around them; `options` and `configurations` read requests, and `pods` is for what is not stored as an object.
"""
