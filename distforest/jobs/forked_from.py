"""The imports, and one call, of the process from which `distforest.jobs.worker_start` forks workers.

A worker then imports nothing more of this package, of Dask, or of Numba, which imports a hundred modules at the first
call of a kernel.
"""

import distributed.http.scheduler.prometheus
import distributed.nanny  # noqa: F401
import numpy as np

from distforest.growth.rng import unit
from distforest.jobs import on_dask, score, train, tune  # noqa: F401
from distforest.jobs.worker_start import put_back

put_back()
unit(np.uint64(0), 0)
