"""Dask is as `distforest.jobs.dask_private` takes it to be."""

from __future__ import annotations

import dask
import distributed.utils
import pytest
from distributed import LocalCluster

from distforest.jobs.dask_private import give_up_silent_workers, keep_forkserver_preload


def test_dask_preloads_nothing_where_it_is_told_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    preloaded = list[object]()

    class Context:
        set_forkserver_preload = preloaded.append

    monkeypatch.setattr(distributed.utils.multiprocessing, "get_context", lambda _: Context)
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        monkeypatch.setattr(distributed.utils, "_forkserver_preload_set", False)
        distributed.utils.get_mp_context()
        assert preloaded
        preloaded.clear()
        monkeypatch.setattr(distributed.utils, "_forkserver_preload_set", False)
        keep_forkserver_preload()
        distributed.utils.get_mp_context()
        assert not preloaded


@pytest.mark.cluster
def test_a_scheduler_looks_for_silent_workers_by_a_callback_of_its_own() -> None:
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        looks = cluster.scheduler.periodic_callbacks["worker-ttl"]
        assert looks.callback == cluster.scheduler.check_worker_ttl
        assert looks.callback_time == 1000 * cluster.scheduler.worker_ttl
        give_up_silent_workers(cluster.scheduler, 30.0)
        assert (cluster.scheduler.worker_ttl, looks.callback_time) == (30.0, 3000.0)
