"""Health checks of an author: their rounds, and the verdict for each device."""
