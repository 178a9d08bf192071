"""What has happened in the process from which `distforest.jobs.worker_start` forks workers: imports, and a call.

Whatever a task is, a worker then imports nothing more of this package, of Dask, or of Numba, which imports a hundred
modules when a kernel is called for the first time.
"""

import distributed.http.scheduler.prometheus
import distributed.nanny  # noqa: F401
import numpy as np

from distforest.growth.rng import unit
from distforest.jobs import on_dask, score, train, tune  # noqa: F401
from distforest.jobs.worker_start import put_back

put_back()
unit(np.uint64(0), 0)
