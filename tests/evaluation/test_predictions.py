"""Predictions judged by what is true, against scikit-learn's measures; rows are found by name, or by their order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from distforest.errors import DistforestWarning, InputError
from distforest.evaluation.predictions import PredictionScores, score_predictions
from distforest.forest.pairs.decisions import Calibration
from distforest.sources.arrays import write_array
from distforest.sources.files.ingest import ingest
from distforest.sources.files.text_options import TextOptions
from distforest.stores.groups import seal_group
from tests.messages import naming
from tests.service.command_line import run

RNG = np.random.default_rng(0)
N = 80
CLASSES = np.array(["fern", "moss", "pine"])
TRUE = CLASSES[RNG.integers(0, 3, N)]
SHARES = RNG.dirichlet([1, 1, 1], N) * 0.6 + 0.4 * (TRUE[:, None] == CLASSES)
NAMES = [f"n{k}" for k in range(N)]
SIZE = RNG.normal(size=N)
GUESS = SIZE + RNG.normal(size=N) / 2


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    turned = RNG.permutation(N)
    truth = pd.DataFrame({"name": NAMES, "kind": TRUE, "size": SIZE})
    truth.to_csv("ordered.csv", index=False)
    truth.iloc[turned].to_csv("turned.csv", index=False)
    shares = {f"proba_{name}": SHARES[:, k] for k, name in enumerate(CLASSES)}
    pd.DataFrame({"name": NAMES, **shares}).to_parquet("proba.parquet", index=False)
    pd.DataFrame({"row": range(N), **shares}).to_csv("numbered.csv", index=False)
    pd.DataFrame({"name": NAMES, "kind": TRUE, "prediction": CLASSES[SHARES.argmax(axis=1)]}).to_csv(
        "p.csv", index=False
    )
    pd.DataFrame({"name": NAMES, "prediction": GUESS}).to_csv("numbers.csv", index=False)
    return tmp_path


def test_each_measure_stands_beside_that_of_one_answer_for_all_rows(home: Path) -> None:
    found = {own.name: own.baseline for own in score_predictions("proba.parquet", "ordered.csv", label="kind").measures}
    shares = np.unique(TRUE, return_counts=True)[1] / N
    assert found == pytest.approx(
        {
            "accuracy": shares.max(),
            "balanced accuracy": 1 / 3,
            "log-loss": log_loss(TRUE, np.tile(shares, (N, 1))),
            "ROC AUC": 0.5,
        }
    )
    found = {own.name: own.baseline for own in score_predictions("numbers.csv", "ordered.csv", target="size").measures}
    assert found == pytest.approx({"R2": 0.0, "RMSE": SIZE.std()})
    out = run("evaluate", "p.csv", "--label", "kind")[1]
    assert f"; baseline {shares.max():.4f}\n" in out
    assert out.splitlines()[-1].startswith("baseline           always '")


def values(judged: PredictionScores) -> dict[str, float]:
    return {own.name: own.value for own in judged.measures}


def test_labels_are_judged_as_scikit_learn_does(home: Path) -> None:
    del home
    predicted = CLASSES[SHARES.argmax(axis=1)]
    known = {
        "accuracy": accuracy_score(TRUE, predicted),
        "balanced accuracy": balanced_accuracy_score(TRUE, predicted),
        "log-loss": log_loss(TRUE, SHARES),
        "ROC AUC": roc_auc_score(TRUE, SHARES, multi_class="ovr"),
    }
    for answer, truth in (
        ("proba.parquet", "turned.csv"),
        ("proba.parquet", "ordered.csv"),
        ("numbered.csv", "ordered.csv"),
    ):
        found = score_predictions(answer, truth, label="kind")
        assert values(found) == pytest.approx(known)
        assert found.n_rows == N
        for own in found.measures:
            assert own.low is not None
            assert own.high is not None
            assert own.low < own.value < own.high
    for truth in (None, "turned.csv"):
        found = score_predictions("p.csv", truth, label="kind", n_resamples=0)
        assert values(found) == pytest.approx({name: known[name] for name in ("accuracy", "balanced accuracy")})
        assert [own.low for own in found.measures] == [None, None]


def test_targets_are_judged_as_scikit_learn_does(home: Path) -> None:
    del home
    found = score_predictions("numbers.csv", "turned.csv", target="size")
    assert values(found) == pytest.approx({"R2": r2_score(SIZE, GUESS), "RMSE": root_mean_squared_error(SIZE, GUESS)})


@pytest.mark.parametrize("kind", ["predict", "proba"])
def test_answers_in_zarr_are_judged_by_an_array(kind: str, home: Path) -> None:
    del home
    codes = np.searchsorted(CLASSES, TRUE)
    write_array("truth.zarr", "y", codes.shape, codes.dtype, [codes], {"classes": CLASSES.tolist()})
    array = SHARES if kind == "proba" else SHARES.argmax(axis=1)
    name = "proba" if kind == "proba" else "prediction"
    write_array("a.zarr", name, array.shape, array.dtype, [array], {"classes": CLASSES.tolist()})
    seal_group("a.zarr", {"distforest": {"forest": "0", "answer": kind, "complete": True}})
    found, known = (
        score_predictions("a.zarr", "truth.zarr/y"),
        score_predictions("proba.parquet", "ordered.csv", label="kind"),
    )
    assert found.measures == known.measures[: len(found.measures)]
    assert len(found.measures) == (4 if kind == "proba" else 2)
    assert score_predictions(f"a.zarr/{name}", "truth.zarr/y").measures == found.measures


def measured_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Distances that a forest predicts of pairs of names, and the same pairs as measured, turned and reordered."""
    pairs = np.argwhere(np.triu(RNG.random((N, N)) < 0.05, 1))
    apart = np.abs(SIZE[pairs[:, 0]] - SIZE[pairs[:, 1]])
    left, right = np.array(NAMES)[pairs].T
    answers = pd.DataFrame(
        {"left_name": left, "right_name": right, "distance": apart + RNG.normal(size=len(pairs)) / 4}
    )
    truth = pd.DataFrame({"i": right, "j": left, "apart": apart})
    return answers, truth.iloc[RNG.permutation(len(pairs))]


def test_pairs_are_judged_by_their_measured_distances(home: Path) -> None:
    answers, truth = measured_tables()
    answers.to_csv("pairs.csv", index=False)
    twice = pd.concat([truth, truth.assign(i=truth["j"], j=truth["i"], apart=truth["apart"] + 2.0)])
    for name, table in {"once.csv": truth, "twice.csv": twice}.items():
        table.to_csv(name, index=False)
    known = truth.set_index("j").loc[:, ["i", "apart"]].reset_index()
    true = answers.merge(known, left_on=["left_name", "right_name"], right_on=["j", "i"])["apart"].to_numpy()
    rank, r2, rmse = score_predictions("pairs.csv", "once.csv", target="apart", pairs=["i,j"]).measures
    assert rank.value == pytest.approx(spearmanr(answers["distance"], true)[0])
    assert r2.value == pytest.approx(r2_score(true, answers["distance"]))
    assert rmse.value == pytest.approx(root_mean_squared_error(true, answers["distance"]))
    assert (rank.low or 1.0) < rank.value < (rank.high or 0.0)
    assert rmse.baseline == pytest.approx(true.std())
    of_means = score_predictions("pairs.csv", "twice.csv", target="apart", pairs=["i", "j"], n_resamples=0).measures[2]
    assert of_means.value == pytest.approx(root_mean_squared_error(true + 1.0, answers["distance"]))


def test_pairs_that_were_not_measured_are_left_out_and_reported(home: Path) -> None:
    answers, truth = measured_tables()
    answers.to_csv("pairs.csv", index=False)
    three = r"'n\d+' and 'n\d+', 'n\d+' and 'n\d+', 'n\d+' and 'n\d+'$"
    truth.iloc[2:].assign(apart=lambda rows: rows["apart"].where(np.arange(len(rows)) > 0)).to_csv("some.csv")
    with pytest.warns(DistforestWarning, match=rf"some.csv: 3 of {len(answers)} .*pairs.csv .*{three}"):
        found = score_predictions("pairs.csv", "some.csv", target="apart", pairs=["i,j"], n_resamples=0)
    assert found.n_rows == len(answers) - 3


@pytest.mark.parametrize("where", ["answers", "truth"])
def test_whole_numbers_are_the_same_names_with_a_point(where: str, home: Path) -> None:
    """A column of numbers that pandas has read as floats ends each with .0; other names stay as they are."""
    answers, truth = measured_tables()
    numbers = {name: str(k) for k, name in enumerate(NAMES)}
    asked, known = (table.replace(numbers) for table in (answers, truth))
    labels = pd.DataFrame({"name": range(N), "kind": TRUE})
    plain = answers, truth, pd.DataFrame({"name": NAMES, "kind": TRUE})
    for name, table in zip(("pairs.csv", "truth.csv", "kinds.csv"), plain, strict=True):
        table.to_csv(name, index=False)
    expected = [score_predictions("pairs.csv", "truth.csv", target="apart", pairs=["i,j"]).measures]
    expected.append(score_predictions("pairs.csv", "kinds.csv", label="kind").measures)
    expected.append(score_predictions("p.csv", "kinds.csv", label="kind").measures)
    predicted = pd.read_csv("p.csv").replace(numbers)
    if where == "answers":
        asked, predicted = (table.replace(r"^(\d+)$", r"\1.0", regex=True) for table in (asked, predicted))
    else:
        known = known.replace(r"^(\d+)$", r"\1.0", regex=True)
        labels["name"] = labels["name"].astype(float)
    for name, table in zip(
        ("pairs.csv", "truth.csv", "kinds.csv", "p.csv"), (asked, known, labels, predicted), strict=True
    ):
        table.to_csv(name, index=False)
    found = [score_predictions("pairs.csv", "truth.csv", target="apart", pairs=["i,j"]).measures]
    found.append(score_predictions("pairs.csv", "kinds.csv", label="kind").measures)
    assert [*found, score_predictions("p.csv", "kinds.csv", label="kind").measures] == expected


def test_measured_pairs_must_be_those_of_the_answers(home: Path) -> None:
    answers, truth = measured_tables()
    answers.to_csv("pairs.csv", index=False)
    truth.to_csv("measured.csv", index=False)
    truth.assign(i="x").to_csv("others.csv", index=False)
    with pytest.raises(InputError, match=naming("measured.csv", "'i', 'j', 'apart'", "`pairs`")):
        score_predictions("pairs.csv", "measured.csv", target="apart")
    with pytest.raises(InputError, match=naming("others.csv", "pairs.csv", "'n", "'x'")):
        score_predictions("pairs.csv", "others.csv", target="apart", pairs=["i,j"])
    with pytest.raises(InputError, match=naming("`pairs`", "`target`", "'name,kind'")):
        score_predictions("numbers.csv", "ordered.csv", target="size", pairs=["name,kind"])


@pytest.mark.parametrize("word", ["row", "name"])
def test_pairs_are_judged_by_the_labels_of_their_points(word: str, home: Path) -> None:
    pairs = RNG.integers(0, N, (200, 2))
    apart = pairs[:, 0] != pairs[:, 1]
    similar = TRUE[pairs[:, 0]] == TRUE[pairs[:, 1]]
    distance = np.where(similar, 0.4, 0.6) + RNG.normal(size=200) / 5
    named = pairs if word == "row" else np.array(NAMES)[pairs]
    table = pd.DataFrame({f"left_{word}": named[:, 0], f"right_{word}": named[:, 1], "distance": distance})
    table.to_csv(home / "pairs.csv", index=False)
    found = score_predictions("pairs.csv", "ordered.csv" if word == "row" else "turned.csv", label="kind")
    [area] = found.measures
    assert area.value == pytest.approx(roc_auc_score(similar[apart], -distance[apart]))
    assert area.low is not None
    assert area.low < area.value < (area.high or 0)
    assert found.n_rows == apart.sum()


def test_pairs_have_a_threshold_for_each_false_positive_rate(home: Path) -> None:
    pairs = RNG.integers(0, N, (400, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    similar = TRUE[pairs[:, 0]] == TRUE[pairs[:, 1]]
    distance = np.where(similar, 0.4, 0.6) + RNG.normal(size=len(pairs)) / 5
    table = pd.DataFrame({"left_row": pairs[:, 0], "right_row": pairs[:, 1], "distance": distance})
    table.to_csv(home / "pairs.csv", index=False)
    asked = ("evaluate", "pairs.csv", "ordered.csv", "--label", "kind", "--fpr", "0.05", "--fpr", "0.2")
    answer = json.loads(run(*asked, "--json", "--resamples", "0")[1])
    for rate, point in zip((0.05, 0.2), answer["roc"], strict=True):
        called = distance <= point["threshold"]
        assert (called[~similar].mean(), called[similar].mean()) == pytest.approx((point["fpr"], point["tpr"]))
        assert point["fpr"] <= rate < point["fpr"] + 1.5 / (~similar).sum()
    assert run(*asked)[1].count("threshold  ") == 2
    assert all("cannot be shown" in held for held in answer["held"])  # of three kinds of trees


def test_pairs_have_a_threshold_that_holds_among_new_identities(home: Path) -> None:
    del home
    kinds = np.repeat(np.arange(10, 50), 2)  # in one order as numbers and as texts
    places = (
        np.random.default_rng(0).normal(size=(40, 3))[kinds - 10] + np.random.default_rng(1).normal(size=(80, 3)) / 5
    )
    left, right = np.triu_indices(80, 1)
    distance, similar = np.linalg.norm(places[left] - places[right], axis=1), kinds[left] == kinds[right]
    pd.DataFrame({"left_row": left, "right_row": right, "distance": distance}).to_csv("pairs.csv", index=False)
    pd.DataFrame({"kind": kinds}).to_csv("kinds.csv", index=False)
    expected = Calibration(distance, similar, kinds[np.stack([left, right], axis=1)].astype(np.int32))
    asked = ("evaluate", "pairs.csv", "kinds.csv", "--label", "kind", "--fpr", "0.1")
    answer, text = json.loads(run(*asked, "--json")[1]), run(*asked)[1]
    assert answer["held"][0]["threshold"] == pytest.approx(expected.threshold(0.1))
    assert answer["band"]["auc_low"] == pytest.approx(expected.roc_band().auc_low)
    assert expected.decision(0.1).described() in " ".join(text.split())


def test_rates_are_for_distances_of_pairs(home: Path) -> None:
    del home
    with pytest.raises(InputError, match=naming("`fpr`", "`label`", 0.05)):
        score_predictions("p.csv", None, label="kind", fpr=[0.05])


@pytest.mark.parametrize("words", [("no", "yes"), ("False", "True"), ("-1", "1")])
def test_pairs_are_judged_by_a_table_that_calls_them_similar(words: tuple[str, str], home: Path) -> None:
    del home
    answers, truth = measured_tables()
    answers.to_csv("pairs.csv", index=False)
    is_near = truth["apart"].to_numpy() < truth["apart"].median()
    links = truth.assign(same=np.array(words)[is_near.astype(int)])
    links = pd.concat([links, links.iloc[:5]])  # a row that occurs twice counts twice
    links.to_csv("links.csv", index=False)
    asked = {frozenset(pair): far for *pair, far in answers.itertuples(index=False)}
    distance = np.array([asked[frozenset(pair)] for pair in zip(links["i"], links["j"], strict=True)])
    known = {"label": "same", "pairs": ["i,j"]}
    found = score_predictions("pairs.csv", "links.csv", **known, fpr=[0.1])  # type: ignore[arg-type]
    [area] = found.measures
    similar = (links["same"] == words[1]).to_numpy()
    assert area.value == pytest.approx(roc_auc_score(similar, -distance))
    assert (area.low or 1.0) < area.value < (area.high or 0.0)
    assert found.n_rows == len(links)
    [point] = found.roc
    assert (distance <= (point.threshold or 0.0))[~similar].mean() == pytest.approx(point.fpr)
    links[:-9].to_csv("some.csv", index=False)
    with pytest.warns(DistforestWarning, match=naming("some.csv", f"4 of {len(answers)}", "'same'")):
        score_predictions("pairs.csv", "some.csv", **known)  # type: ignore[arg-type]
    links.replace(words[1], "unlike").replace(words[0], "alike").to_csv("alike.csv", index=False)
    with pytest.raises(InputError, match=naming("alike.csv", "'alike'", "'unlike'")):
        score_predictions("pairs.csv", "alike.csv", **known)  # type: ignore[arg-type]
    links.assign(i="x" + links["i"]).to_csv("others.csv", index=False)
    with pytest.raises(InputError, match=naming("others.csv", "pairs.csv", "'same'", "'xn")):
        score_predictions("pairs.csv", "others.csv", **known)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_or_reported(home: Path) -> None:
    pd.DataFrame({"a": [1, 2]}).to_csv("strange.csv", index=False)
    pd.DataFrame({"kind": TRUE[:9]}).to_csv("few.csv", index=False)
    pd.DataFrame({"name": NAMES[1:], "kind": TRUE[1:]}).to_csv("lacking.csv", index=False)
    pd.DataFrame({"name": NAMES[:1] * N, "kind": TRUE}).to_csv("twice.csv", index=False)
    pd.DataFrame({"name": NAMES, "kind": [f"{name}!" for name in TRUE]}).to_csv("others.csv", index=False)
    pd.DataFrame({"name": NAMES, "proba_a": 0.4, "proba_b": 0.4}).to_csv("shares.csv", index=False)
    for answer, truth, columns, named in (
        ("strange.csv", "ordered.csv", {"label": "kind"}, ("strange.csv", "'prediction'", "'a'")),
        ("numbered.csv", "few.csv", {"label": "kind"}, ("few.csv", "80", "numbered.csv", "9")),
        ("p.csv", "lacking.csv", {"label": "kind"}, ("lacking.csv", "'n0'")),
        ("p.csv", "twice.csv", {"label": "kind"}, ("twice.csv", "'n0'", "0 and 1", "--id")),
        ("p.csv", "others.csv", {"label": "kind"}, ("others.csv", "!'", "'pine'")),
        ("shares.csv", "ordered.csv", {"label": "kind"}, ("shares.csv", "sum 1", "'proba_...'")),
        ("p.csv", "ordered.csv", {}, ("ordered.csv", "`label`", "`target`")),
        ("p.csv", "ordered.csv", {"target": "size"}, ("p.csv", "'pine'", "`label`")),
        ("proba.parquet", "ordered.csv", {"target": "size"}, ("ordered.csv", "shares", "`label`")),
        ("p.csv", "ordered.csv", {"target": "size", "label": "kind"}, ("`label`", "`target`", "'kind'", "'size'")),
        ("p.csv", "ordered.csv", {"label": "kinds"}, ("ordered.csv", "'kinds'", "'kind'")),
    ):
        with pytest.raises(InputError, match=naming(*named)):
            score_predictions(answer, truth, **columns)
    some = pd.DataFrame({"name": NAMES, "kind": ["oak", *TRUE[1:]]})
    some.to_csv(home / "oak.csv", index=False)
    with pytest.warns(DistforestWarning, match=naming("oak.csv", "'oak'", "log-loss", "ROC AUC")):
        found = score_predictions("proba.parquet", "oak.csv", label="kind")
    assert len(found.measures) == 2


def test_rows_that_share_a_name_are_paired_by_their_places_if_all_names_agree(home: Path) -> None:
    names = [f"n{k // 2}" for k in range(N)]
    table = pd.DataFrame({"name": names, "kind": TRUE, "prediction": CLASSES[SHARES.argmax(axis=1)]})
    table.drop(columns="kind").to_csv(home / "answers.csv", index=False)
    table.drop(columns="prediction").to_csv(home / "truth.csv", index=False)
    assert values(score_predictions("answers.csv", "truth.csv", label="kind")) == values(
        score_predictions("p.csv", "ordered.csv", label="kind")
    )
    table.iloc[::-1].to_csv(home / "turned.csv", index=False)
    with pytest.raises(InputError, match=naming("turned.csv", "--id")):
        score_predictions("answers.csv", "turned.csv", label="kind")


def test_a_truth_may_be_written_otherwise(home: Path) -> None:
    frame = pd.DataFrame({"name": NAMES, "size": SIZE})
    frame.to_csv(home / "german.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    text = TextOptions(separator=";", decimal=",", encoding="cp1252")
    known = score_predictions("numbers.csv", "ordered.csv", target="size", n_resamples=5)
    assert (
        score_predictions("numbers.csv", "german.csv", target="size", n_resamples=5, text=text).measures
        == known.measures
    )
    with pytest.raises(InputError, match="`separator`"):
        score_predictions("numbers.csv", "german.csv", target="size")


@pytest.mark.parametrize("written", [("true", "false", "True", "False"), ("1", "0", "1.0", "0.0")])
def test_labels_are_the_same_whoever_has_written_them(written: tuple[str, ...], home: Path) -> None:
    ours, theirs = np.array(written[:2])[[0, 1] * (N // 2)], np.array(written[2:])[[0, 1] * (N // 2)]
    pd.DataFrame({"name": NAMES, "prediction": np.append(ours[1:], ours[0])}).to_csv(home / "ours.csv", index=False)
    pd.DataFrame({"name": NAMES, "kind": ours}).to_csv(home / "as_we_do.csv", index=False)
    pd.DataFrame({"name": NAMES, "kind": theirs}).to_csv(home / "theirs.csv", index=False)
    known, found = (score_predictions("ours.csv", f"{name}.csv", label="kind") for name in ("as_we_do", "theirs"))
    assert found.measures == known.measures
    pd.DataFrame({"name": NAMES, "proba_" + written[0]: 0.25, "proba_" + written[1]: 0.75}).to_csv(
        home / "shares.csv", index=False
    )
    known, found = (score_predictions("shares.csv", f"{name}.csv", label="kind") for name in ("as_we_do", "theirs"))
    assert found.measures == known.measures


def test_the_command_judges_predictions(home: Path) -> None:
    del home
    code, out, err = run("evaluate", "p.csv", "--label", "kind", "--resamples", "20")
    assert code == 0, err
    assert [line.split("  ")[0] for line in out.splitlines()] == [
        *("answer", "truth", "accuracy", "balanced accuracy", "baseline")
    ]
    code, out, _ = run("evaluate", "proba.parquet", "turned.csv", "--label", "kind", "--json", "--resamples", "0")
    scores = json.loads(out)["scores"]
    assert (code, sorted(scores)) == (0, ["ROC AUC", "accuracy", "balanced accuracy", "log-loss"])
    assert scores["accuracy"]["low"] is None
    assert run("evaluate", "absent.zarr", "ordered.csv", "--label", "kind")[0] != 0


def test_rows_are_found_by_the_names_beside_an_array(home: Path) -> None:
    del home
    for name in ("ordered", "turned"):
        ingest(f"{name}.csv", f"{name}.zarr", id="name", label="kind")
    known = values(score_predictions("proba.parquet", "ordered.csv", label="kind", n_resamples=0))
    for name in ("ordered", "turned"):
        assert values(score_predictions("proba.parquet", f"{name}.zarr/y", n_resamples=0)) == pytest.approx(known)
    pd.read_csv("turned.csv").rename(columns={"name": "plant"}).to_csv("called.csv", index=False)
    ingest("called.csv", "called.zarr", id="plant", label="kind")
    assert values(score_predictions("proba.parquet", "called.zarr/y", n_resamples=0)) != pytest.approx(known)


def test_rows_of_a_table_without_the_names_of_the_answers_are_paired_by_their_places(home: Path) -> None:
    del home
    pd.read_csv("ordered.csv").rename(columns={"name": "plant"}).to_csv("called.csv", index=False)
    known = score_predictions("proba.parquet", "ordered.csv", label="kind", n_resamples=0)
    assert score_predictions("proba.parquet", "called.csv", label="kind", n_resamples=0).measures == known.measures


def test_a_title_above_the_truth_is_skipped(home: Path) -> None:
    Path("titled.csv").write_text(f"Plants\n{Path('turned.csv').read_text()}")
    found = score_predictions("proba.parquet", "titled.csv", label="kind", text=TextOptions(skip_rows=1))
    assert found.measures == score_predictions("proba.parquet", "turned.csv", label="kind").measures
    asked = ["evaluate", "proba.parquet", "titled.csv", "--label", "kind"]
    assert "--skip-rows" in run(*asked)[2]
    assert run(*asked, "--skip-rows", "1")[0] == 0
