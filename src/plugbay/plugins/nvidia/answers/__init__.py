"""The answers of Allocate: which requests are refused, and what a container gets. Pure."""
