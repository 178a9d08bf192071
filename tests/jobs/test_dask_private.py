"""Dask is as `distforest.jobs.dask_private` takes it to be."""

from __future__ import annotations

import inspect
import time

import dask
import distributed.utils
import pytest
from distributed import LocalCluster

from distforest.jobs import dask_private
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
def test_a_scheduler_restarts_silent_workers_and_waits_for_no_frozen_nanny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nannies are asked for a moment, and workers are gone if theirs do not answer."""
    monkeypatch.setattr(dask_private, "heartbeat_interval", lambda _: 0.0)
    with (
        dask.config.set({"distributed.worker.preload": []}),  # of the cluster of other tests, for processes
        LocalCluster(n_workers=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
    ):
        scheduler, restart = cluster.scheduler, {"timeout", "wait_for_workers", "on_error", "stimulus_id"}
        assert scheduler.periodic_callbacks["worker-ttl"].callback == scheduler.check_worker_ttl
        assert restart <= inspect.signature(scheduler.restart_workers).parameters.keys()
        silent, heard = scheduler.workers.values()

        async def fall_silent() -> None:
            give_up_silent_workers(scheduler, 30.0)
            silent.last_seen = time.time() - 31.0
            heard.last_seen = time.time() - 29.0
            await scheduler.periodic_callbacks["worker-ttl"].callback()

        cluster.sync(fall_silent)
        assert scheduler.worker_ttl == 30.0
        assert set(scheduler.workers) == {heard.address}
