"""Dates of data frames, counted as a forest learns them or has learned them: library and unit make no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest import RFD, SMERF, URerF, load
from distforest.errors import InputError
from distforest.sources.files.ingest import ingest
from tests.messages import naming

RNG = np.random.default_rng(0)
DAYS = pd.Timestamp("2024-03-05") + pd.to_timedelta(RNG.integers(0, 300, 80), "D")
TIMES = DAYS + pd.to_timedelta(RNG.integers(0, 86400, 80), "s")
TABLE = pd.DataFrame({"size": RNG.normal(size=80).round(3), "seen": DAYS, "at": TIMES})
TABLE.loc[7, "seen"] = pd.NaT
KINDS = np.where(TABLE["seen"] > "2024-09-01", "late", "early")


@pytest.fixture(scope="module", params=[SMERF, RFD])
def forest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("dates")
    TABLE.assign(kind=KINDS).to_csv(home / "t.csv", index=False)
    ingest(str(home / "t.csv"), str(home / "t.zarr"), label="kind")
    own = request.param(5, random_state=0).fit(str(home / "t.zarr/X"), str(home / "t.zarr/y"))
    own.known = own.distance(str(home / "t.zarr/X"))[:, 20:]
    return own


def in_unit(unit: str) -> pd.DataFrame:
    return TABLE.astype({"seen": f"datetime64[{unit}]", "at": f"datetime64[{unit}]"})


FRAMES = {
    **{unit: in_unit(unit) for unit in ("s", "ms", "us", "ns")},
    "Arrow's types in pandas": TABLE.convert_dtypes(dtype_backend="pyarrow"),
    "Arrow": pa.Table.from_pandas(TABLE, preserve_index=False),
    "Polars": pl.from_arrow(pa.Table.from_pandas(TABLE, preserve_index=False)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_the_same_dates_have_the_same_answer(name: str, forest: Any) -> None:
    np.testing.assert_array_equal(forest.distance(FRAMES[name])[:, 20:], forest.known)


def test_later_rows_are_not_counted_from_their_own_first_day(forest: Any) -> None:
    later = TABLE[20:].reset_index(drop=True)
    np.testing.assert_array_equal(forest.distance(TABLE, later), forest.known)


def test_arrow_in_days(forest: Any) -> None:
    table = pa.Table.from_pandas(TABLE, preserve_index=False)
    place = table.column_names.index("seen")
    in_days = table.set_column(place, "seen", table["seen"].cast(pa.date32()))
    for own in (table, in_days):
        np.testing.assert_array_equal(forest.distance(own)[:, 20:], forest.known)


def test_zones_are_not_dropped(forest: Any, tmp_path: Path) -> None:
    """A local time without its zone would be some hours off, without a word."""
    zoned = TABLE.assign(seen=TABLE["seen"].dt.tz_localize("UTC"))
    for frame in (zoned, pa.Table.from_pandas(zoned, preserve_index=False)):
        with pytest.raises(InputError, match=naming("X: ", "column 'seen'", "without", "time zone")):
            forest.distance(frame)
    zoned.assign(kind=KINDS).to_csv(tmp_path / "z.csv", index=False)
    ingest(str(tmp_path / "z.csv"), str(tmp_path / "z.zarr"), label="kind")
    own = SMERF(5, random_state=0).fit(str(tmp_path / "z.zarr/X"), str(tmp_path / "z.zarr/y"))
    known = own.distance(str(tmp_path / "z.zarr/X"))
    elsewhere = zoned.assign(seen=zoned["seen"].dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_array_equal(own.distance(elsewhere), known)
    with pytest.raises(InputError, match=naming("time zone", "column 'seen'")):
        own.distance(TABLE)


# --- dates from which a forest learns ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("method", [SMERF, RFD, URerF])
def test_a_frame_with_dates_teaches_what_its_ingested_file_does(name: str, method: Any, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    ingest(str(tmp_path / "t.csv"), str(tmp_path / "t.zarr"))
    address = str(tmp_path / "t.zarr/X")
    labels = () if method is URerF else (KINDS,)
    known = method(5, random_state=0).fit(address, *labels)
    own = method(5, random_state=0).fit(FRAMES[name], *labels)
    assert own.digest_ == known.digest_
    own.save(tmp_path / "f.zarr")
    apart = known.distance(address, address)
    later = FRAMES[name][30:] if name != "Arrow" else FRAMES[name].slice(30)
    for forest in (own, load(tmp_path / "f.zarr")):
        np.testing.assert_array_equal(forest.distance(later, later), apart[30:, 30:])
        np.testing.assert_array_equal(forest.distance(address, address), apart)
    seen = load(tmp_path / "f.zarr").forest_.schema.columns[1]
    assert (seen.unit, seen.origin) == ("days", str(DAYS.delete(7).min().date()))
    assert seen.dtype == str(FRAMES[name]["seen"].type if name == "Arrow" else FRAMES[name]["seen"].dtype)


def test_dates_with_a_zone_are_counted_in_utc() -> None:
    zoned = TABLE.assign(seen=TABLE["seen"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    own = SMERF(5, random_state=0).fit(zoned, KINDS)
    assert own.digest_ == SMERF(5, random_state=0).fit(TABLE, KINDS).digest_
    in_lima = zoned.assign(seen=zoned["seen"].dt.tz_convert("America/Lima"))
    np.testing.assert_array_equal(own.distance(in_lima), own.distance(zoned))
    with pytest.raises(InputError, match=naming("time zone", "column 'seen'")):
        own.distance(TABLE)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(-20_000, 20_000), st.sampled_from(["s", "ms", "us", "ns"]))
def test_all_days_moved_alike_teach_the_same(days: int, unit: str) -> None:
    moved = TABLE.assign(seen=TABLE["seen"] + pd.to_timedelta(days, "D"), at=TABLE["at"].astype(f"datetime64[{unit}]"))
    assert SMERF(2, random_state=0).fit(moved, KINDS).digest_ == SMERF(2, random_state=0).fit(TABLE, KINDS).digest_


def test_numbers_in_place_of_dates_are_counted_already_and_words_are_refused(forest: Any) -> None:
    known = forest.distance(TABLE)
    counted = TABLE.assign(seen=(TABLE["seen"] - TABLE["seen"].min()).dt.days.astype(float))
    assert (forest.distance(counted) == known).all()
    held = counted["seen"].astype(object)
    held[::2] = None
    forest.distance(counted.assign(seen=held))
    forest.distance(TABLE.assign(seen=np.nan))
    words = TABLE["seen"].astype(str)
    for dtype in ("str", "object", "category"):
        with pytest.raises(InputError, match=naming("column 'seen'", "'2024-")):
            forest.distance(TABLE.assign(seen=words.astype(dtype)))


def test_dates_by_which_nothing_can_be_counted_are_refused() -> None:
    with pytest.raises(InputError, match=naming("X: ", "column 'seen'", "none")):
        SMERF(2).fit(TABLE.assign(seen=pd.NaT), KINDS)
    unnamed = TABLE.set_axis([0, 1, 2], axis=1)
    forest, known = (SMERF(2, random_state=0).fit(table, KINDS) for table in (unnamed, TABLE))
    assert (forest.distance(unnamed[9:]) == known.distance(TABLE[9:])).all()
    numbers = SMERF(2, random_state=0).fit(TABLE[["size"]], KINDS)
    with pytest.raises(InputError, match=naming("column 'size'", "datetime64")):
        numbers.distance(TABLE[["seen"]].set_axis(["size"], axis=1))
