"""Forests and their predictions: node table, leaf tables, artifact, scoring. Nothing here imports growth."""
