"""Export of a forest, by the suffix of a file: the sealed forest, or its predictions as an ONNX model.

::

    X (n, p) -> Cast -> TreeEnsembleRegressor -> probabilities (n, K) -> ArgMax -> Gather -> label (n,)
    float32   float64    mean over the trees  -> variable (n, q)

Any program that runs ONNX predicts by the model, without distforest. Rows are float32, as the forest reads them, and
are compared with thresholds in float64, as in the forest, so that every row ends in the same leaf. The means over the
trees are float32 (ONNX: ai.onnx.ml, TreeEnsembleRegressor 3).
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import InputError
from distforest.forest.scoring import predicting
from distforest.forest.sealed.artifact import check_free, owned_address, save
from distforest.forest.sealed.files import ONE_FILE
from distforest.sources.row_kinds import Features
from distforest.stores.addresses import put_file
from distforest.stores.outputs import check_place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onnx import ModelProto

    from distforest.forest.forest import Forest
    from distforest.forest.scoring import Predicting
    from distforest.sources.factors import ClassName

ONNX = ".onnx"
"""The suffix of an ONNX model."""

FORMS = {
    ONE_FILE: "the sealed forest in one file",
    ".zarr": "the sealed forest as a Zarr group",
    ONNX: "its predictions as an ONNX model",
}
"""Form of the export, by suffix."""

SEALED = (ONE_FILE, ".zarr")
"""The suffixes of a sealed forest."""

OPSETS = {"": 15, "ai.onnx.ml": 3}
"""The versions of the operators, by domain: the first that compare in float64."""

IR_VERSION = 8
"""Version of the file format for these operators; every runtime since 2022 reads it."""

MAX_MODEL_BYTES = (1 << 31) - 1
"""The largest model: Protocol Buffers keeps sizes in 31 bits."""

BYTES_OF_NODE = 24
"""Least bytes of a node in the model, by which a far too large forest is refused before the model is built."""


def check_export(address: str, forms: Collection[str] = FORMS) -> str:
    """Return the form of an export to an address, a value of `FORMS`.

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
        The form that was written, a value of `FORMS`.

    Raises
    ------
    InputError
        The suffix is unknown, the folder does not exist, or ONNX cannot express the forest.
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


def onnx_model(forest: Forest) -> ModelProto:
    """Return the ONNX model that predicts as a forest does.

    Parameters
    ----------
    forest
        A forest of features whose splits read single columns, with class counts or means in its leaves.

    Returns
    -------
    onnx.ModelProto
        Its input ``X``, float32, has shape (n, n_features); NaN is a missing value. For a forest on labels, the outputs
        are ``label``, shape (n,), and ``probabilities``, shape (n, n_classes), float32; for any other forest,
        ``variable``, shape (n, q), float32.

    Raises
    ------
    InputError
        The forest cannot be expressed, or the package ``onnx`` is not installed.
    """
    _check_expressible(forest)
    try:
        from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise InputError(f"ONNX needs the package onnx, pip install 'distforest[onnx]': {error}") from error
    classes = forest.meaning.classes
    values = "variable" if classes is None else "probabilities"
    n_outputs = predicting(forest).n_outputs
    outputs = [helper.make_tensor_value_info(values, TensorProto.FLOAT, [None, n_outputs])]
    nodes = [
        helper.make_node("Cast", ["X"], ["X_in_float64"], to=TensorProto.DOUBLE),
        helper.make_node("TreeEnsembleRegressor", ["X_in_float64"], [values], domain="ai.onnx.ml"),
    ]
    for name, value in ensemble(forest).items():
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        given = numpy_helper.from_array(value, name) if name.endswith("_as_tensor") else plain
        nodes[1].attribute.append(helper.make_attribute(name, given))
    initializers = []
    if classes is not None:
        labels = numpy_helper.from_array(array_of_classes(classes), "classes")
        initializers.append(labels)
        nodes.append(helper.make_node("ArgMax", [values], ["class_number"], axis=1, keepdims=0))
        nodes.append(helper.make_node("Gather", ["classes", "class_number"], ["label"]))
        outputs.insert(0, helper.make_tensor_value_info("label", labels.data_type, [None]))
    rows = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, forest.n_features])
    graph = helper.make_graph(nodes, "forest", [rows], outputs, initializers)
    imports = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="distforest")
    helper.set_model_props(model, _metadata(forest))
    return model


def onnx_bytes(forest: Forest) -> bytes:
    """Return the content of the file of `onnx_model`; raise InputError also for a model that is too large for ONNX."""
    n_least = BYTES_OF_NODE * len(forest.table.left)
    model = onnx_model(forest) if n_least <= MAX_MODEL_BYTES else None
    if model is None or model.ByteSize() > MAX_MODEL_BYTES:
        found = f"at least {n_least if model is None else model.ByteSize():,} bytes of {forest.n_trees:,} trees"
        raise InputError(f"an ONNX model of at most {MAX_MODEL_BYTES:,} bytes was expected, found {found}; grow fewer")
    return model.SerializeToString(deterministic=True)


def ensemble(forest: Forest) -> dict[str, Any]:
    """Return the attributes of ``TreeEnsembleRegressor`` by name: for all nodes, then for the outputs of all leaves."""
    table = forest.routed_table
    n_nodes, inner = len(table.left), ~table.is_leaf
    tree = np.repeat(np.arange(table.n_trees), table.tree_size)
    number = np.arange(n_nodes) - table.tree_start[tree]
    column = np.zeros(n_nodes, np.int64)
    column[inner] = table.columns
    goes_right = np.zeros(n_nodes, np.bool_) if table.missing_right is None else table.missing_right
    attributes = {
        "nodes_treeids": tree,
        "nodes_nodeids": number,
        "nodes_featureids": column,
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF"),
        "nodes_values_as_tensor": table.threshold,
        "nodes_truenodeids": np.where(inner, table.left, 0),
        "nodes_falsenodeids": np.where(inner, table.right, 0),
        "nodes_missing_value_tracks_true": (inner & ~goes_right).astype(np.int64),
    }
    leaf, output, weight = _outputs_of_leaves(forest, predicting(forest))
    return {
        **attributes,
        "target_treeids": tree[leaf],
        "target_nodeids": number[leaf],
        "target_ids": output,
        "target_weights_as_tensor": weight,
        "n_targets": predicting(forest).n_outputs,
        "aggregate_function": "AVERAGE",
        "post_transform": "NONE",
    }


def _outputs_of_leaves(forest: Forest, leaf_table: Predicting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return node, output number and value of all outputs of leaves; of zeros, only the first of each leaf."""
    table, found = forest.table, []
    for number in range(table.n_trees):
        start, end = table.tree_start[number], table.tree_start[number + 1]
        leaves = np.flatnonzero(table.is_leaf[start:end])
        values = leaf_table.outputs(number, leaves)
        is_written = values != 0.0
        is_written[:, 0] = True
        place, output = np.nonzero(is_written)
        found.append((start + leaves[place], output, values[is_written]))
    leaf, output, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return leaf, output, value


def _check_expressible(forest: Forest) -> None:
    """Refuse a forest that ONNX has no operator for; raise InputError."""
    rows, table = forest.meaning.rows, forest.table
    wanted = "ONNX holds the predictions of forests whose splits compare single features"
    if not isinstance(rows, Features):
        raise InputError(f"{wanted}, found one over rows of kind {rows.kind}; export it to one file (.zip)")
    try:
        predicting(forest)
    except InputError as error:
        raise InputError(f"{wanted}, found one that predicts nothing: {error}") from error
    if any(rows.n_categories):
        raise InputError(f"{wanted} of numbers, found one with columns of categories; teach it their codes as numbers")
    if (table.width > 1).any() or (table.weights != 1.0).any():
        raise InputError(f"{wanted}, found splits on sums of features; grow it with feature_combinations=1")
    if forest.nearest_votes or not forest.sends_missing_on:
        raise InputError(f"{wanted}, found one of feature subsets, or whose nearest training objects vote")


def array_of_classes(classes: Sequence[ClassName]) -> np.ndarray:
    """Return the classes as an array of booleans, int64, float64 or strings; raise InputError for any others.

    Examples
    --------
    >>> array_of_classes([1, 2.5]).dtype.name, array_of_classes([True, False]).dtype.name
    ('float64', 'bool')
    """
    kinds = {type(name) for name in classes}
    dtype = next((dtype for of, dtype in _DTYPES_OF_CLASSES if kinds <= of), None)
    if dtype is None or (dtype is np.int64 and any(abs(int(name)) >= 2**63 for name in classes)):
        raise InputError("classes of one kind were expected: words, booleans, or numbers of at most 64 bits")
    return np.array(list(classes), dtype)


_DTYPES_OF_CLASSES: tuple[tuple[set[type], Any], ...] = (
    ({bool}, np.bool_),
    ({int}, np.int64),
    ({int, float}, np.float64),
    ({str}, np.object_),
)
"""Dtype for classes of some types."""


def _metadata(forest: Forest) -> dict[str, str]:
    """Return what the model states about the forest: its digest and method, and the names of its features."""
    schema = forest.schema
    names = {} if schema is None else {"feature_names": json.dumps(list(schema.names))}
    return {"digest": forest.digest, "method": forest.meaning.method, **names}
