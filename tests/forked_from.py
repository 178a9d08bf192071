"""What has happened in the process from which `tests.forked_workers` forks others: what happens for users, and more."""

from importlib import import_module

import distforest.jobs.forked_from  # noqa: F401

IMPORTED = (
    *("distforest.estimators.rfd", "distforest.estimators.simforest", "distforest.estimators.smerf"),
    *("distforest.estimators.tree_rank", "distforest.estimators.tuning", "distforest.estimators.urerf"),
    *("hypothesis", "pytest", "sklearn.datasets", "sklearn.model_selection", "tests.samples"),
)
"""What tests, and the functions that they send to workers, import."""

for name in IMPORTED:
    import_module(name)
