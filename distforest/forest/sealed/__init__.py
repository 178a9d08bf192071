"""A forest on disk."""
