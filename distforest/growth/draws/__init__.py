"""Draws of a node's candidates: columns, sums of columns, and pairs of objects."""
