"""Forests on disk: the artifact, and how its arrays are packed."""
