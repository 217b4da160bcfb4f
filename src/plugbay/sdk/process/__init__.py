"""A process of one or many plugins: targets, configuration, which plugins run, pages and metrics, and its end."""
