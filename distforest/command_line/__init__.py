"""The commands ``distforest`` and ``dask distforest``."""
