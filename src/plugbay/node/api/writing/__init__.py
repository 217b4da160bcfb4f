"""Objects as clients change them: bodies, patches, preconditions."""
