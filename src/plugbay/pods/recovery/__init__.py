"""Recovery: a starting node takes up the pods of an earlier run, and clears away what belongs to no pod."""
