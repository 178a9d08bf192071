"""What a notebook shows of an estimator: scikit-learn's HTML, and after a fit a table of the forest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sklearn
from sklearn.pipeline import make_pipeline

from distforest import SMERF, SimForestClassifier, load
from distforest.html_table import html_table
from tests.estimators.rows import SMALL, SMALL_Y

if TYPE_CHECKING:
    from pathlib import Path


def shown(estimator: Any) -> str:
    """The HTML of an estimator, which is the same on both ways of a notebook."""
    html = str(estimator._repr_html_())
    bundle = estimator._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "<table" in bundle["text/html"]
    assert ("out-of-bag score" in html, "digest" in html) == tuple(
        words in bundle["text/html"] for words in ("out-of-bag score", "digest")
    )
    return html


def test_a_fitted_forest_has_a_table_and_one_that_is_not_has_none(tmp_path: Path) -> None:
    forest = SimForestClassifier("linear", n_estimators=20, oob_score=True, random_state=0)
    assert ">digest</th>" not in forest._repr_html_()
    table = forest.fit(SMALL, SMALL_Y)._repr_html_inner()
    assert "sk-top-container" in forest._repr_html_()
    values = ["simforest", "20", str(len(SMALL)), forest.digest_, f"{forest.oob_score_:.4g}"]
    assert [value for value in values if f">{value}</td>" not in table] == []
    forest.save(tmp_path / "x.zarr")
    assert forest.digest_ in load(tmp_path / "x.zarr")._repr_html_inner()


def test_without_an_estimate_no_score_is_shown_and_a_pipeline_is_shown() -> None:
    forest = SMERF(3, random_state=0).fit(SMALL, SMALL_Y)
    assert "out-of-bag score</th>" not in forest._repr_html_()
    assert "SMERF" in make_pipeline(forest)._repr_html_()


def test_who_wants_text_gets_text() -> None:
    forest = SMERF(3, random_state=0).fit(SMALL, SMALL_Y)
    with sklearn.config_context(display="text"):
        assert not hasattr(forest, "_repr_html_")
        assert set(forest._repr_mimebundle_()) == {"text/plain"}


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img onerror=x>', "a & b"])
def test_a_table_is_escaped_and_takes_the_colours_of_the_page(text: str) -> None:
    table = html_table([(text, text)])
    assert text not in table
    assert not {"<script", "<img", "onerror=x>"} & set(table.replace(">", "> ").split())
    assert {part.split(";")[0] for part in table.split("color:")[1:]} == {"inherit"}
    assert table.count("background:transparent") == 3
