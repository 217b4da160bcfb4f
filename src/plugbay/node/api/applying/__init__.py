"""Server-side apply: which client owns which field of an object, and what an applied configuration makes of one.

Pure, but for `routes`. `elements` and `sets` are the form ``FieldsV1``; `types` says what is merged how; `walking`,
`validation`, `comparing`, `merging`, `removing`, `reconciling` go through typed values; `updating` is the algorithm,
`managers` the entries of ``metadata.managedFields``, `field_manager` what an API server puts around both.
"""
