"""What has happened in the process from which `tests.forked_workers` forks others: imports, and a call of a kernel.

Numba imports a hundred modules when a kernel is called for the first time.
"""

from importlib import import_module

import numpy as np

from distforest.growth.rng import unit

IMPORTED = (
    *("distforest.estimators.rfd", "distforest.estimators.simforest", "distforest.estimators.smerf"),
    *("distforest.estimators.tree_rank", "distforest.estimators.tuning", "distforest.estimators.urerf"),
    *("distforest.growth.methods", "distforest.jobs.on_dask", "distforest.jobs.score", "distforest.jobs.staging"),
    *("distforest.jobs.train", "distforest.jobs.tune", "distributed", "distributed.http.scheduler.prometheus"),
    *("hypothesis", "pytest", "sklearn.datasets", "sklearn.model_selection", "tests.samples"),
)
"""What tests, the functions that they send to workers, and workers import."""

for name in IMPORTED:
    import_module(name)
unit(np.uint64(0), 0)
