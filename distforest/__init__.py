"""Forests that learn a similarity or a distance, trained on Dask."""

__version__ = "0.1.0"
