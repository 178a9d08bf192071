"""Workers of an embedded cluster that die are replaced, whenever they die."""

from __future__ import annotations

import os
import signal
from concurrent.futures import CancelledError

import dask
import pytest
from distributed.comm import CommClosedError

from distforest.jobs.on_dask import local_cluster
from tests.service.processes import until

pytestmark = pytest.mark.slow


@pytest.mark.cluster
def test_a_worker_that_dies_is_replaced_and_never_given_up() -> None:
    """Dask closes the nanny of a worker that is away when a timeout ends, which began when it died an earlier time."""
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}), local_cluster(2) as cluster:
        client = cluster.client
        first = set(client.run(os.getpid).values())
        died = min(first)
        os.kill(died, signal.SIGKILL)

        def replaced() -> bool:
            try:
                found = set(client.run(os.getpid).values())
            except (CommClosedError, CancelledError, OSError):  # while it is not known that the worker died
                return False
            return len(found) == 2 and died not in found

        until(replaced)
