"""Forests on disk: the artifact, and the packing of its arrays."""
