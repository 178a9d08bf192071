"""The forms in which a forest leaves distforest, by the suffix of a file."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.forest.onnx_model import onnx_bytes
from distforest.forest.sealed.artifact import check_free, owned_address, save
from distforest.forest.sealed.files import ONE_FILE
from distforest.stores.addresses import put_file
from distforest.stores.outputs import check_place

if TYPE_CHECKING:
    from collections.abc import Collection

    from distforest.forest.forest import Forest

ONNX = ".onnx"
"""The suffix of an ONNX model."""

FORMS = {
    ONE_FILE: "the sealed forest in one file",
    ".zarr": "the sealed forest as a Zarr group",
    ONNX: "its predictions as an ONNX model",
}
"""What is written, by suffix."""

SEALED = (ONE_FILE, ".zarr")
"""The suffixes of a sealed forest."""


def check_export(address: str, forms: Collection[str] = FORMS) -> str:
    """What would be written at an address: a value of `FORMS`.

    Parameters
    ----------
    address
        Path or URL.
    forms
        The suffixes that are allowed, keys of `FORMS`.

    Raises
    ------
    InputError
        The suffix is none of them, or the folder does not exist.
    ArtifactError
        The address is in use.

    Examples
    --------
    >>> check_export("wine.forest.zarr.zip")
    'the sealed forest in one file'
    """
    suffix = PurePosixPath(address).suffix
    if suffix not in forms:
        known = ", ".join(f"{own} ({FORMS[own]})" for own in forms)
        raise InputError(f"{address}: a name that ends in one of {known} was expected; choose another")
    check_place(address)
    check_free(address)
    return FORMS[suffix]


def export_forest(forest: Forest, address: str) -> str:
    """Write a forest in the form that the suffix of an address names: a file as a whole or not at all.

    Parameters
    ----------
    forest
        The forest.
    address
        Path or URL; its suffix is a key of `FORMS`.

    Returns
    -------
    str
        What was written: a value of `FORMS`.

    Raises
    ------
    InputError
        The suffix says nothing, the folder does not exist, or ONNX cannot express the forest.
    ArtifactError
        The address is in use; nothing is replaced.
    ConflictError
        Another process, or a job, is writing there.
    """
    form = check_export(address)
    if address.endswith(ONNX):
        with owned_address(address):
            put_file(address, onnx_bytes(forest))
    else:
        save(forest, address)
    return form
