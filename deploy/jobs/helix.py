"""Write points of a helix, among features of noise, as the array X of a Zarr group: ``helix.py GROUP``."""

import sys

import numpy as np
import zarr

rng = np.random.default_rng(0)
along = rng.uniform(2 * np.pi, 9 * np.pi, 1000)
helix = np.column_stack([along * np.cos(along), along * np.sin(along), along])
X = np.hstack([helix, rng.normal(scale=8, size=(1000, 100))]).astype(np.float32)
zarr.open_group(sys.argv[1], mode="w").create_array("X", data=X)
