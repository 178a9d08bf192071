"""A preload of Dask workers: a line for each task whose trees were grown to their last level, in ``$GROWTH_LOG``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from distforest.jobs import train
from distforest.service.registry import WORK

if TYPE_CHECKING:
    import numpy as np
    from distributed import Worker

    from distforest.jobs.shards import Receipt
    from distforest.stores.folder import Folder

VARIABLE = "GROWTH_LOG"


def dask_setup(_worker: Worker) -> None:
    """Note job, first and last tree of what is about to be committed."""
    path, commit = os.environ[VARIABLE], train.commit

    def noted(folder: Folder, arrays: dict[str, np.ndarray], receipt: Receipt) -> Receipt:
        job = folder.address.split(f"/{WORK}/")[0].rsplit("/", 1)[-1]
        with open(path, "a", encoding="utf-8") as file:  # one short write, which no other process can divide
            file.write(f"{job} {receipt.first} {receipt.last}\n")
        return commit(folder, arrays, receipt)

    train.commit = noted
