"""Reports of commands: an object for ``--json``, and lines of a name and a value for people."""

from __future__ import annotations

from dataclasses import asdict
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.amounts import counted, in_bytes, value_in_words
from distforest.forest.chosen_cut import ChosenCut
from distforest.forest.merged_trees import merged_in_words
from distforest.sources.comparisons import RecordComparison
from distforest.sources.files.ids import NAMED_ROWS
from distforest.sources.row_kinds import input_in_words
from distforest.sources.schema import DTYPES, ENCODINGS, Schema
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.evaluation.predictions import PredictionScores
    from distforest.evaluation.splits import Divided
    from distforest.forest.feature_shares import FeatureShares
    from distforest.forest.forest import Forest
    from distforest.forest.roots import Roots
    from distforest.jobs.outline import Outline
    from distforest.jobs.preview import Preview
    from distforest.jobs.question import Question
    from distforest.jobs.score import Scored
    from distforest.jobs.score_table import ScoredTable
    from distforest.jobs.spec import Spec
    from distforest.jobs.train import Fitted
    from distforest.jobs.tune import TunedForest
    from distforest.jobs.tune_spec import TuneSpec
    from distforest.pictures.clusters import Clusters, PrincipalCoordinates
    from distforest.sources.files.ingest import Ingested
    from distforest.sources.files.survey import ColumnSummary
    from distforest.sources.scratch import ScratchFolder


N_MOST, N_SHOWN = 20, 5
"""Number of features with the largest shares in the object of a report, and in its lines."""

N_COLUMNS = 40
"""Largest number of columns that the lines of a report list."""


class Report(NamedTuple):
    """The report of a command.

    ``answer`` is the object for programs; ``lines`` are a name and a value each, for people.
    """

    answer: dict[str, object]
    lines: list[tuple[str, str]]


def _in_shape(shape: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in shape)


def in_columns(table: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table with aligned columns.

    Examples
    --------
    >>> in_columns([("ID", "STATE"), ("smerf-1", "RUNNING")])
    ['ID       STATE', 'smerf-1  RUNNING']
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def fitted(spec: Spec, done: Fitted, memory_limit: int | None) -> Report:
    """Report a training run: the forest, the speed, and the memory with its projection and its limit."""
    rate = done.n_grown / done.seconds if done.seconds else 0.0
    answer: dict[str, object] = {
        "forest": done.address,
        "digest": done.digest,
        "method": spec.method,
        "n_trees": done.n_trees,
        "n_grown": done.n_grown,
        "seconds": done.seconds,
        "trees_per_second": rate,
        "peak_bytes": done.peak_bytes,
        "projected_bytes": done.projected_bytes,
        "memory_limit": memory_limit,
        "warnings": list(done.warnings),
    }
    lines = [("forest", done.address), ("digest", done.digest)]
    if done.evaluations or done.closed:
        answer |= {"evaluations": done.evaluations, "closed": done.closed}
        spent = f"; {counted(done.closed, 'node')} closed, or trees not started, as the budget was spent"
        closed = spent if done.closed else ""
        lines.append(("evaluations", f"{counted(done.evaluations, 'pair')} paid for{closed}"))
    if not done.seconds:
        return Report(answer, [*lines, ("trees", f"{done.n_trees:,}, sealed by an earlier run of this job")])
    grown_here = "" if done.n_grown == done.n_trees else f", {done.n_grown:,} of them grown in this run"
    allowed = f", {in_bytes(memory_limit)} allowed" if memory_limit else ""
    peak = f"{in_bytes(done.peak_bytes)} at the peak of a worker, " if done.n_grown else ""
    lines += [
        ("trees", f"{done.n_trees:,}{grown_here}"),
        ("seconds", f"{done.seconds:.1f}, {rate:,.1f} trees a second"),
        ("memory", f"{peak}{in_bytes(done.projected_bytes)} projected{allowed}"),
    ]
    return Report(answer, lines)


def tuned(spec: TuneSpec, done: TunedForest, memory_limit: int | None) -> Report:
    """Report a tuning run: the best forest, and the scores of all cells."""
    of_best = fitted(spec, done.fitted, memory_limit)
    grid = done.grid.to_dict()
    answer = of_best.answer | {"best": done.grid.best_params_, "scoring": done.grid.scoring, "cells": grid["cells"]}
    answer |= {"n_grown": done.n_grown, "seconds": done.seconds, "warnings": list(done.warnings)}
    best = ", ".join(f"{name}={value}" for name, value in done.grid.best_params_.items())
    lines = [line for line in of_best.lines if line[0] in {"forest", "digest", "trees", "memory"}]
    lines += [("best", best), (done.grid.scoring, f"{done.grid.best_score_:.4g}")]
    if done.seconds:
        lines.append(("all cells", f"{counted(done.n_grown, 'tree')} grown in this run, {done.seconds:.1f} s"))
    return Report(answer, lines + _titled("cells", str(done.grid).splitlines()))


def scored(question: Question, done: Scored) -> Report:
    """Report a scoring run: the address of the answers, and their shapes."""
    answer: dict[str, object] = {
        "output": done.address,
        "forest": question.forest,
        "digest": done.digest,
        "answer": question.answer,
        "arrays": {name: list(shape) for name, shape in done.shapes.items()},
    }
    lines = [("output", done.address), ("forest", done.digest)]
    if done.own is not None:
        answer["sides"] = done.own.sides
        lines.append(("sides", done.own.in_words))
    return Report(answer, [*lines, *(("array", f"{name} {_in_shape(shape)}") for name, shape in done.shapes.items())])


def scored_table(question: Question, done: ScoredTable) -> Report:
    """Report a scoring run into a table: its path, and its columns."""
    answer: dict[str, object] = {
        "output": done.path,
        "forest": question.forest,
        "digest": done.digest,
        "answer": question.answer,
        "n_rows": done.n_rows,
        "columns": list(done.columns),
    }
    columns = _in_short(list(done.columns))
    lines = [("output", done.path), ("forest", done.digest), ("table", f"{counted(done.n_rows, 'row')}, {columns}")]
    return Report(answer, lines)


def ingested(target: str, written: Mapping[str, Ingested], attributes: Mapping[str, object]) -> Report:
    """Report the arrays that were made from a file, and the attributes of their group."""
    arrays = {
        array.name: {
            "shape": list(array.shape),
            "dtype": array.dtype,
            "sha256": array.sha256,
            "attributes": list(array.attributes),
        }
        for array in written.values()
    }
    lines = [("target", target)]
    columns = [column for array in written.values() for column in array.columns]
    for array in written.values():
        brief = {name: value for name, value in array.attributes.items() if name not in (DTYPES, ENCODINGS, NAMED_ROWS)}
        of_array = "".join(f", {name} {_in_short(value)}" for name, value in brief.items())
        of_array = ", no feature_names" if array.name == "X" and not of_array else of_array
        lines.append(("array", f"{array.name} {array.dtype} {_in_shape(array.shape)}{of_array}"))
    lines += [("attribute", f"{name} {_in_short(value)}") for name, value in attributes.items() if name != NAMED_ROWS]
    answer: dict[str, object] = {"target": target, "arrays": arrays, "attributes": list(attributes)}
    if columns:
        answer["columns"] = [asdict(column) for column in columns]
        lines += _in_columns(columns)
    return Report(answer, lines)


def _in_columns(columns: Sequence[ColumnSummary]) -> list[tuple[str, str]]:
    """Return a table of the columns: kind, missing values, range or categories, first values."""
    shown = columns if len(columns) <= N_COLUMNS else columns[: N_COLUMNS - 1]
    rows = [("name", "kind", "missing", "holds", "first values")]
    for column in shown:
        first = ", ".join(f'"{cell}"' if "," in cell else cell for cell in column.first)
        rows.append((column.name, column.kind, f"{column.n_missing:,}", column.contents, first))
    lines = [("column", line) for line in in_columns(rows)]
    more = len(columns) - len(shown)
    return [*lines, ("column", f"and {more:,} more, in the answer of --json")] if more else lines


def _in_short(value: object) -> str:
    """Format the value of an attribute; of a list, only the first entries."""
    if isinstance(value, list):
        return ", ".join(map(_in_short, value[:N_SHOWN])) + (f", ... ({len(value):,})" if value[N_SHOWN:] else "")
    return value_in_words(value)


def divided(done: Divided) -> Report:
    """Report the two parts of a table."""
    lines = [
        ("train", f"{done.train}, {counted(done.n_train, 'row')}"),
        ("test", f"{done.test}, {counted(done.n_test, 'row')}"),
    ]
    return Report(asdict(done), lines)


def prediction_scores(found: PredictionScores) -> Report:
    """Report the scores of predictions."""
    scores: dict[str, object] = {}
    for own in found.measures:
        value = own.value if np.isfinite(own.value) else None
        scores[own.name] = {"value": value, "low": own.low, "high": own.high, "baseline": own.baseline}
    answer: dict[str, object] = {
        "answer": found.answer,
        "truth": found.truth,
        "n_rows": found.n_rows,
        "n_resamples": found.n_resamples,
        "scores": scores,
        "baseline": found.always,
    }
    lines = [("answer", f"{found.answer}, {counted(found.n_rows, 'row')}"), ("truth", found.truth)]
    for own in found.measures:
        interval = "" if own.low is None else f", {own.low:.4f} to {own.high:.4f} in 95 % of resamples"
        lines.append((own.name, f"{own.value:.4f}{interval}; baseline {own.baseline:.4f}"))
    if found.roc:
        answer["roc"] = [point._asdict() for point in found.roc]
        lines += [("threshold", point.told()) for point in found.roc]
    if found.held:
        answer["held"] = [own if isinstance(own, str) else own._asdict() for own in found.held]
        lines += [("new identities", own if isinstance(own, str) else own.described()) for own in found.held]
    if found.band:
        auc, low, high = found.band[4:]
        answer["band"] = {"auc": auc, "auc_low": low, "auc_high": high}
        lines.append(("of identities", f"ROC AUC {auc:.4f}, {low:.4f} to {high:.4f} in 95 % of resamples"))
    return Report(answer, [*lines, ("baseline", f"always {found.always}")])


def labelled(output: str, address: str, forest: Forest, found: Clusters, places: PrincipalCoordinates | None) -> Report:
    """Report a table of the clusters of training rows."""
    shares = [] if places is None else places.shares.tolist()
    answer: dict[str, object] = {
        "output": output,
        "forest": address,
        "digest": forest.digest,
        "n_rows": forest.n_training,
        "sizes": found.sizes.tolist(),
        "variance_shares": shares,
    }
    sizes = f"{counted(len(found.sizes), 'cluster')} of {', '.join(f'{n:,}' for n in found.sizes)} rows"
    lines = [("output", output), ("forest", address), ("digest", forest.digest), ("clusters", sizes)]
    if shares:
        lines.append(("coordinates", f"{', '.join(f'{100 * share:.1f} %' for share in shares)} of the variance"))
    return Report(answer, lines)


def verified(address: str, forest: Forest) -> Report:
    """Report a forest that was read completely and is intact."""
    arrays = forest.arrays()
    n_bytes = sum(array.nbytes for array in arrays.values())
    answer: dict[str, object] = {
        "forest": address,
        "valid": True,
        "digest": forest.digest,
        "method": forest.meaning.method,
        "n_trees": forest.n_trees,
        "n_arrays": len(arrays),
        "n_bytes": n_bytes,
    }
    checked = f"yes: {counted(forest.n_trees, 'tree')}, {counted(len(arrays), 'array')}, {in_bytes(n_bytes)}"
    return Report(answer, [("forest", address), ("digest", forest.digest), ("valid", checked)])


def exported(address: str, forest: Forest, output: str, form: str) -> Report:
    """Report a forest that was written in another form."""
    answer: dict[str, object] = {
        "output": output,
        "form": form,
        "forest": address,
        "digest": forest.digest,
        "n_trees": forest.n_trees,
    }
    return Report(answer, [("output", output), ("form", form), ("forest", address), ("digest", forest.digest)])


def merged_forests(address: str, forests: Sequence[str], found: Forest) -> Report:
    """Report a forest that was merged from others."""
    answer = {"forest": address, "digest": found.digest, "n_trees": found.n_trees, "forests": list(forests)}
    lines = [("forest", address), ("digest", found.digest), ("trees", f"{found.n_trees:,}")]
    return Report(answer, [*lines, ("merged", merged_in_words(found.provenance))])


def previewed(seen: Preview, scratch: ScratchFolder) -> Report:
    """Report the inputs of a job, the memory that each of its workers will need, and the room in the scratch folder."""
    free = scratch.free
    inputs: dict[str, dict[str, object]] = {}
    lines = []
    for array in seen.inputs:
        inputs[array.place] = {"address": array.address, "shape": list(array.shape), "dtype": array.dtype}
        stored = ""
        if array.n_stored is not None:
            inputs[array.place]["n_stored"] = array.n_stored
            stored = f", sparse, {array.n_stored:,} stored"
        lines.append((array.place, f"{array.address} {array.dtype} {_in_shape(array.shape)}{stored}"))
    answer: dict[str, object] = {
        "inputs": inputs,
        "n_rows": seen.size.n_rows,
        "n_trees": seen.size.n_trees,
        "n_tasks": len(seen.plan.tasks),
        "projected_bytes": seen.plan.projected_bytes,
        "rows_budget": seen.size.rows_budget,
        "n_parts": seen.size.n_parts,
        "memory_limit": seen.memory_limit,
        "scratch": {"folder": str(scratch.path), **seen.scratch._asdict(), "limit": scratch.limit, "free": free},
        "told": list(seen.warnings),
    }
    limit = in_bytes(seen.memory_limit) if seen.memory_limit else "the memory of the scheduler's workers"
    most = f" (at most {in_bytes(scratch.limit)})" if scratch.limit is not None else ""
    beside = f" and {in_bytes(seen.scratch.passes)} of codes and rows" if seen.scratch.passes else ""
    staged = f"{in_bytes(seen.scratch.staged)} of staged files{most}{beside} in {scratch.path}"
    lines += [
        ("trees", f"{seen.size.n_trees:,} in {counted(len(seen.plan.tasks), 'task')}"),
        ("memory", f"{in_bytes(seen.plan.projected_bytes)} projected for each worker, of {limit}"),
        ("scratch", f"{staged}, {in_bytes(free)} free"),
    ]
    if seen.size.rows_budget is not None:
        name, of = ("distances", "task") if seen.size.dense else ("rows", "tree")
        held = in_bytes(seen.size.rows_budget)
        lines.append((name, f"by passes, {held} of them in memory at once for each {of}"))
    if seen.size.n_parts is not None:
        lines.append(("rows", f"in {counted(seen.size.n_parts, 'part')}"))
    return Report(answer, [*lines, *(("warning", text) for text in seen.warnings)])


def outlined(seen: Outline) -> Report:
    """Report the arrays that a scoring job will write."""
    arrays = {
        name: {"shape": [seen.n_answers, *tail], "dtype": str(dtype)} for name, (dtype, tail) in seen.arrays.items()
    }
    answer: dict[str, object] = {"digest": seen.digest, "arrays": arrays, "told": list(seen.warnings)}
    lines = [("forest", seen.digest)]
    for name, (dtype, tail) in seen.arrays.items():
        lines.append(("array", f"{name} {dtype} {_in_shape((seen.n_answers, *tail))}"))
    return Report(answer, [*lines, *(("warning", text) for text in seen.warnings)])


# --- forests ---------------------------------------------------------------------------------------------


def inspected(
    address: str,
    manifest: Mapping[str, Any],
    roots: Roots | None,
    drawn: FeatureShares | None,
    unobserved: float | None = None,
) -> Report:
    """Report a forest: its manifest, its trees without a split, and the features it drew if their weights differ.

    ``unobserved`` is the share of the pairs of leaves without an observed distance; None if all were observed.
    """
    meaning = manifest["meaning"]
    arrays = {
        name: {
            "shape": entry["shape"],
            "dtype": entry["dtype"],
            "n_bytes": prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize,
        }
        for name, entry in manifest["arrays"].items()
    }
    n_trees, n_nodes = arrays["tree_size"]["shape"][0], arrays["left"]["shape"][0]
    schema = Schema.from_provenance(manifest["provenance"])
    answer: dict[str, Any] = {
        "forest": address,
        **{key: manifest[key] for key in ("format", "digest")},
        **{key: meaning[key] for key in ("method", "params", "seed", "rows", "leaf", "classes")},
        "n_trees": n_trees,
        "n_rows": arrays["in_bag"]["shape"][-1],
        "n_nodes": n_nodes,
        "n_roots": roots.n_roots if roots else None,
        # an inner node has two children of its own, except in the small trees of a ranking tree
        "n_leaves": None if meaning["leaf"]["kind"] == "ranks" else (n_nodes + n_trees) // 2,
        "n_bytes": sum(array["n_bytes"] for array in arrays.values()),
        "arrays": arrays,
        "feature_names": list(schema.names) if schema else None,
        "feature_dtypes": list(schema.dtypes) if schema and schema.dtypes else None,
        "provenance": manifest["provenance"],
    }
    if unobserved is not None:
        answer["unobserved_share"] = unobserved
    lines = _inspected_lines(answer)
    place = next(place for place, (name, _) in enumerate(lines) if name == "nodes")
    if roots and (warning := roots.warning()):
        lines.insert(place + 1, ("warning", warning))
    if unobserved is not None:
        text = f"{100.0 * unobserved:.3g} % of the pairs of leaves have no distance; their parents stand in"
        lines.insert(place + 1, ("observed", text))
    if drawn is not None:
        answer["features"] = {"n_dependent": drawn.n_dependent, "most": _most(drawn)}
        lines.insert(place, ("features", _in_shares(drawn)))
    return Report(answer, lines)


def _most(drawn: FeatureShares) -> list[dict[str, Any]]:
    """Return the features with the largest shares, without features that were never drawn."""
    most = [k for k in drawn.by_share[:N_MOST].tolist() if drawn.shares[k] > 0.0]
    dependence = [None] * len(drawn.shares) if drawn.dependence is None else drawn.dependence.tolist()
    names = drawn.names or [None] * len(drawn.shares)
    return [
        {"feature": k, "name": names[k], "share": float(drawn.shares[k]), "dependence": dependence[k]} for k in most
    ]


def _in_shares(drawn: FeatureShares) -> str:
    """Describe which features were drawn most, and how many depend on another."""
    n_features = len(drawn.shares)
    kind = f"{int((drawn.shares > 0.0).sum()):,} of {n_features:,} were drawn, by given weights"
    if drawn.n_dependent is not None:
        kind = f"{drawn.n_dependent:,} of {n_features:,} depend on another"
    most = []
    for feature in _most(drawn)[:N_SHOWN]:
        by = "" if feature["dependence"] is None else f", dependence {feature['dependence']:.3f}"
        most.append(f"{drawn.name(feature['feature'])} ({feature['share']:.1%}{by})")
    return f"{kind}; drawn most: {', '.join(most)}"


def _inspected_lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    leaves = f", {found['n_leaves']:,} of them leaves" if found["n_leaves"] is not None else ""
    nodes = f"{found['n_nodes']:,} in {counted(found['n_trees'], 'tree')}{leaves}"
    rows = {"kind": found["rows"]["kind"], **found["rows"]}
    schema, compared = Schema.from_provenance(found["provenance"]), rows.pop("comparisons", ())
    features = schema.names if schema else Schema.unnamed(rows.get("n_features", 0)).names
    comparisons = [RecordComparison(word, tuple(places)).name(features) for word, places, _ in compared]
    names = "none"
    if schema is not None:
        more = f", and {len(schema.columns) - N_SHOWN:,} more" if len(schema.columns) > N_SHOWN else ""
        names = f"{', '.join(schema.first(N_SHOWN).described())}{more}"
    kind, held = found["leaf"]["kind"], found["arrays"]
    tables = in_bytes(held[kind]["n_bytes"] if kind in held else 0)  # a manifest without this array
    reason = REASONS[kind].format(tables=tables, distances=in_bytes(4 * found["n_rows"] ** 2))
    lines = [
        ("forest", found["forest"]),
        ("digest", found["digest"]),
        ("method", f"{found['method']}, seed {found['seed']}, format {found['format']}"),
        ("params", ", ".join(f"{name}={value!r}" for name, value in found["params"].items())),
        ("rows", f"{found['n_rows']:,} in training, read as {value_in_words(rows)}"),
        *([("names", names)] if rows["kind"] != "dense" or schema else []),
        *([("compared", ", ".join(comparisons))] if comparisons else []),
        *([("classes", _in_short(found["classes"]))] if found["classes"] is not None else []),
        ("nodes", f"{nodes}, {found['n_nodes'] / max(found['n_trees'], 1):,.1f} a tree"),
        ("leaf table", f"{kind}: {reason}"),
        ("bytes", f"{in_bytes(found['n_bytes'])} decoded"),
    ]
    for name, array in found["arrays"].items():
        size = f"{array['dtype']:<8} {_in_shape(array['shape']):>15}  {in_bytes(array['n_bytes'])}"
        lines.append(("", f"{name:<15} {size}"))
    if merged := merged_in_words(found["provenance"]):
        lines.append(("merged", merged))
    if isinstance(weights := found["provenance"].get(OF_PAIRS.key), dict):
        lines.append(("weights", f"of given pairs: {value_in_words(weights)}"))
    if chosen := ChosenCut.from_provenance(found["provenance"]):
        lines.append(("chosen", chosen.in_words()))
    for title in ("inputs", "similarity", "distances", "versions"):
        section = found["provenance"].get(title)
        entries = _measure_by_measure(section) if isinstance(section, dict) else []
        if title == "inputs":
            is_asked = "similarity" in found["provenance"]
            entries = [(input_in_words(key, rows, is_asked=is_asked), value) for key, value in entries]
        lines += _titled(title, [f"{key} {value_in_words(value)}" for key, value in entries])
    recorded = found["provenance"].get("grown_by")
    grown_by = []
    for entry in recorded if isinstance(recorded, list) else []:
        own = dict(entry) if isinstance(entry, dict) else {"versions": entry}
        trees = own.pop("trees", None)
        grown_by.append(f"{value_in_words(own)}: {trees} trees")
    return lines + _titled("grown by", grown_by)


def _titled(title: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return lines, of which only the first has the title."""
    return [("" if place else title, text) for place, text in enumerate(texts)]


def _measure_by_measure(section: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return the entries of a section of the provenance, with one entry per similarity."""
    entries = [(name, value) for name, value in section.items() if name != "measures"]
    measures = section.get("measures", [])
    listed = enumerate(measures) if isinstance(measures, list) else ()
    return [*entries, *((f"measure {place}", "given" if one is None else one) for place, one in listed)]


REASONS = {
    "leaf_distances": "tables of all leaf pairs, {tables}; the training distances would be {distances}",
    "members": "the training distances, {distances}; tables of all leaf pairs would be larger",
    "class_counts": "the classes of the rows in each node, as splits were scored by labels",
    "means": "mean and spread of each node, as splits were scored by targets or an embedding",
    "graph": "the links of the graph, from which distances of leaves follow; tables of all leaf pairs would be larger",
    "taught_targets": "the training targets, as splits were scored by their absolute differences",
    "same_leaf": "no values, as splits were scored without a ground truth; rows of one leaf are near, others are not",
    "path_lengths": "no values, as splits were random; the node table has the depth and the rows of each node",
    "votes": "the numbers of similar and dissimilar pairs in each node, from which votes follow",
    "ranks": "the numbers of similar and dissimilar pairs in each node, and the score of each cell",
}
"""Contents of each kind of leaf table, and why a forest has it."""
