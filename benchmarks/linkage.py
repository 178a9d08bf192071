"""Record linkage: learners on comparisons of fields, beside Splink, dedupe and the mean of similarities.

::

    python benchmarks/linkage.py                       five populations
    python benchmarks/linkage.py --populations 1 --only "logistic regression" RFD

stdout is markdown, stderr is progress. `population.py` makes two lists of the same people up. Candidate pairs agree in
one of five keys. Households are split into thirds: to learn from, to set thresholds on, and to be asked about; pairs
between thirds are left out. The thirds are equal because the share of household members among dissimilar candidates
falls as a list grows. All learners but Splink and dedupe, which compare fields in their own ways, read the same
comparisons. Printed is the share of the similar candidates that are found at false positive rates of .002 and .0002
among the new candidates, the false positive rate there of a threshold that was set for .002, and the average precision:
means over the populations, ± their standard deviation. A method whose package is not installed is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from measurement import machine, print_table
from population import population
from rapidfuzz.distance import JaroWinkler, Levenshtein
from rapidfuzz.process import cpdist
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from distforest import RFD, Comparison, TreeRank

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

RATES = (0.002, 0.0002)
FIELDS = ("given", "surname", "street", "town", "phone", "born")
SCORERS = {
    "given": JaroWinkler.similarity,
    "surname": JaroWinkler.similarity,
    "street": Levenshtein.normalized_similarity,
    "town": JaroWinkler.similarity,
    "phone": Levenshtein.normalized_similarity,
    "born": Levenshtein.normalized_similarity,
}
KEYS: tuple[Callable[[pd.DataFrame], pd.Series[str]], ...] = (
    lambda own: own.surname.str[:4].str.lower(),
    lambda own: own.born,
    lambda own: own.phone,
    lambda own: own.street + own.town.str[:1].where(own.street != "", ""),
    lambda own: (own.given.str[:3] + own.born.str[:4]).where((own.given != "") & (own.born != ""), ""),
)
"""What candidates have in common; an empty key agrees with none."""


# --- the question -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linkage:
    """Two lists, numbers of candidate pairs in them with what is compared, and the third of each pair."""

    first: pd.DataFrame
    second: pd.DataFrame
    pairs: Ints
    similar: Bools
    comparisons: pd.DataFrame
    part: Ints
    seed: int

    @classmethod
    def from_population(cls, n_households: int, seed: int) -> Linkage:
        """The candidates of a population."""
        first, second = population(n_households, seed)
        pairs = candidates(first, second)
        left, right = first.iloc[pairs[:, 0]], second.iloc[pairs[:, 1]]
        of_household = np.random.default_rng(seed).choice(3, size=n_households)
        part = of_household[left.household]
        inside = part == of_household[right.household]
        pairs, left, right = pairs[inside], left[inside], right[inside]
        return cls(
            first,
            second,
            pairs,
            left.person.to_numpy() == right.person.to_numpy(),
            compared(first, second, pairs),
            part[inside],
            seed,
        )

    @property
    def known(self) -> Bools:
        """Which pairs can be learned from."""
        return self.part == 0

    def records(self, which: Bools) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Both records of pairs, as dedupe reads them: None where a field is missing."""
        lists = [own[list(FIELDS)].to_dict("records") for own in (self.first, self.second)]
        first, second = ([{field: own[field] or None for field in FIELDS} for own in rows] for rows in lists)
        return [(first[a], second[b]) for a, b in self.pairs[which]]


def candidates(first: pd.DataFrame, second: pd.DataFrame) -> Ints:
    """Numbers of the two records of each pair that agrees in a key, shape (n_pairs, 2)."""
    found = []
    for key in KEYS:
        left, right = (pd.DataFrame({"key": key(own), "row": range(len(own))}) for own in (first, second))
        found.append(left[left.key != ""].merge(right, on="key")[["row_x", "row_y"]].to_numpy())
    return np.unique(np.concatenate(found), axis=0)


def compared(first: pd.DataFrame, second: pd.DataFrame, pairs: Ints) -> pd.DataFrame:
    """Compare the fields of each pair; NaN where one is missing. The first six columns are similarities."""
    left, right = first.iloc[pairs[:, 0]].reset_index(drop=True), second.iloc[pairs[:, 1]].reset_index(drop=True)

    def where_both(values: Floats, one: str, other: str) -> Floats:
        return np.where((left[one] == "") | (right[other] == ""), np.nan, values)

    def similarity(scorer: Any, one: str, other: str) -> Floats:
        return where_both(cpdist(left[one].tolist(), right[other].tolist(), scorer=scorer), one, other)

    found = {field: similarity(scorer, field, field) for field, scorer in SCORERS.items()}
    found |= {f"same {field}": where_both(left[field] == right[field], field, field) for field in FIELDS}
    crossed = [similarity(JaroWinkler.similarity, *names) for names in (("given", "surname"), ("surname", "given"))]
    found["crossed names"] = np.fmax(*crossed)
    dates = [pd.to_datetime(own.born, errors="coerce").dt for own in (left, right)]
    found["years apart"] = abs(dates[0].year + dates[0].dayofyear / 366 - dates[1].year - dates[1].dayofyear / 366)
    found["day and month swapped"] = where_both(
        (dates[0].day == dates[1].month) & (dates[0].month == dates[1].day), "born", "born"
    )
    found["mean year"] = (dates[0].year + dates[1].year) / 2
    for field in ("given", "surname"):
        count = pd.concat([first[field], second[field]]).value_counts()
        share = np.fmin(*(own[field].map(count).to_numpy(float) for own in (left, right)))
        found[f"frequency of {field}"] = where_both(np.log(share), field, field)
    return pd.DataFrame(found)


# --- the methods ------------------------------------------------------------------------------------------


def mean_similarity(linkage: Linkage) -> Floats:
    """The mean of the similarities of the fields that both records have."""
    return linkage.comparisons[list(FIELDS)].mean(axis=1).fillna(0.0).to_numpy()


def classifier(make: Callable[[int], Any]) -> Callable[[Linkage], Floats]:
    """The log odds or the probability by one of scikit-learn's classifiers on the comparisons."""

    def scores(linkage: Linkage) -> Floats:
        X, known = linkage.comparisons.to_numpy(), linkage.known
        model = make(linkage.seed).fit(X[known], linkage.similar[known])
        linear = isinstance(model, Pipeline)
        return model.decision_function(X) if linear else model.predict_proba(X)[:, 1]

    return scores


def logistic(degree: int, C: float) -> Any:
    """Logistic regression on the comparisons, on which of them are missing, and on products of so many."""
    steps = SimpleImputer(add_indicator=True), StandardScaler(), PolynomialFeatures(degree, include_bias=False)
    return make_pipeline(*steps, LogisticRegression(C=C, max_iter=3000))


def lightgbm(seed: int) -> Any:
    """LightGBM with its defaults."""
    from lightgbm import LGBMClassifier  # noqa: PLC0415  (where it is installed, as the next two)

    return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)


def dedupe(linkage: Linkage) -> Floats:
    """The classifier of dedupe, on its own comparisons; blocking is left out."""
    from dedupe import RecordLink, variables  # noqa: PLC0415

    fields = [variables.String(field, has_missing=True) for field in FIELDS if field != "phone"]
    linker = RecordLink([*fields, variables.ShortString("phone", has_missing=True)], num_cores=0)
    linker.classifier.n_jobs = 1
    known = linkage.known
    linker.classifier.fit(linker.data_model.distances(linkage.records(known)), linkage.similar[known])
    found = np.zeros(len(linkage.pairs))
    asked = linkage.part > 0
    found[asked] = linker.classifier.predict_proba(linker.data_model.distances(linkage.records(asked)))[:, 1]
    return found


def splink(linkage: Linkage, labelled: bool = True) -> Floats:
    """The match weight of Splink, whose m-probabilities come from the known pairs, or from no labels at all."""
    import splink as package  # noqa: PLC0415
    import splink.comparison_library as library  # noqa: PLC0415

    database = package.DuckDBAPI()
    tables = []
    for name, own in (("first", linkage.first), ("second", linkage.second)):
        keys = pd.DataFrame({f"key{k}": key(own) for k, key in enumerate(KEYS)})
        table = pd.concat([own[list(FIELDS)], keys], axis=1).replace("", None)
        tables.append(database.register(table.assign(unique_id=range(len(own))), dataset_display_name=name))
    comparisons = [
        *(library.NameComparison(name).configure(term_frequency_adjustments=True) for name in ("given", "surname")),
        library.DateOfBirthComparison("born", input_is_string=True),
        library.JaroWinklerAtThresholds("street", [0.95, 0.85]).configure(term_frequency_adjustments=True),
        library.JaroWinklerAtThresholds("town", [0.9]).configure(term_frequency_adjustments=True),
        library.LevenshteinAtThresholds("phone", [1, 2]),
    ]
    rules = [package.block_on(f"key{k}") for k in range(len(KEYS))]
    settings = package.SettingsCreator("link_only", comparisons, rules)
    linker = package.Linker(tables, settings, log_level="ERROR")
    linker.training.estimate_u_using_random_sampling(max_pairs=3e6, seed=linkage.seed)
    if labelled:
        both = pd.DataFrame(linkage.pairs[linkage.known & linkage.similar], columns=["unique_id_l", "unique_id_r"])
        labels = database.register(both.assign(source_dataset_l="first", source_dataset_r="second"))
        linker.training.estimate_m_from_pairwise_labels(labels)
    else:
        for names in (("born",), ("given", "surname")):
            linker.training.estimate_parameters_using_expectation_maximisation(package.block_on(*names))
    found = linker.inference.predict().as_pandas_dataframe()
    weight = found.set_index(["unique_id_l", "unique_id_r"]).match_weight
    return weight.reindex(pd.MultiIndex.from_arrays(linkage.pairs.T)).to_numpy()


def crossed(left: Any, right: Any) -> Floats:
    """The greater similarity of the given name of one record and the surname of the other."""
    return np.fmax(
        *(cpdist(left[a], right[b], scorer=JaroWinkler.similarity, dtype=float) for a, b in ((0, 1), (1, 0)))
    )


def swapped(left: Any, right: Any) -> Floats:
    """Whether day and month of one record are month and day of the other."""
    return np.array([one[5:] == f"{other[8:]}-{other[5:7]}" for one, other in zip(left, right, strict=True)], float)


def mean_year(left: Any, right: Any) -> Floats:
    """The mean year of birth."""
    return np.array([(int(one[:4]) + int(other[:4])) / 2 for one, other in zip(left, right, strict=True)])


def frequency(linkage: Linkage, field: str) -> Callable[[Any, Any], Floats]:
    """How common the rarer one of two names is."""
    counts = pd.concat([linkage.first[field], linkage.second[field]]).value_counts().to_dict()

    def log_count(left: Any, right: Any) -> Floats:
        return np.log([min(counts[one], counts[other]) for one, other in zip(left, right, strict=True)])

    return log_count


def pair_columns(linkage: Linkage) -> list[Comparison]:
    """The comparisons that `compared` makes, as distforest takes them."""
    words = {"given": "jaro_winkler", "surname": "jaro_winkler", "town": "jaro_winkler"}
    return [
        *(Comparison(words.get(field, "levenshtein"), field) for field in FIELDS),
        *(Comparison("equal", field) for field in FIELDS),
        Comparison(crossed, "given", "surname"),
        Comparison("date_gap", "date"),
        Comparison(swapped, "born"),
        Comparison(mean_year, "born"),
        *(Comparison(frequency(linkage, field), field, name=f"frequency of {field}") for field in ("given", "surname")),
    ]


def by_pairs(make: Callable[[list[Comparison], int], Any]) -> Callable[[Linkage], Floats]:
    """Minus the distance by a forest that reads records, for the pairs that are asked about."""

    def scores(linkage: Linkage) -> Floats:
        records = pd.concat([linkage.first, linkage.second], ignore_index=True)[list(FIELDS)].replace("", None)
        records["date"] = pd.to_datetime(records.born)
        rows, known = linkage.pairs + np.array([0, len(linkage.first)]), linkage.known
        forest = make(pair_columns(linkage), linkage.seed)
        forest.fit_pairs(records, rows[known], linkage.similar[known])
        found, asked = np.full(len(rows), -np.inf), rows[~known]
        found[~known] = -forest.pair_distance(records.iloc[asked[:, 0]], records.iloc[asked[:, 1]])
        return found

    return scores


CHOSEN: dict[str, Any] = {"voting": "mean", "max_features": 0.5, "criterion": "entropy"}
"""Parameters of RFD, chosen among six settings on populations of seeds 101 and 102; its peers have their defaults."""

METHODS: dict[str, Callable[[Linkage], Floats]] = {
    "mean of similarities": mean_similarity,
    "logistic regression": classifier(lambda _seed: logistic(1, 1.0)),
    "logistic regression, with products": classifier(lambda _seed: logistic(2, 0.01)),
    "HistGradientBoosting": classifier(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
    "LightGBM": classifier(lightgbm),
    "random forest": classifier(lambda seed: RandomForestClassifier(200, random_state=seed)),
    "extra trees": classifier(lambda seed: ExtraTreesClassifier(200, random_state=seed)),
    "RFD": by_pairs(lambda columns, seed: RFD(100, pair_columns=columns, random_state=seed, n_jobs=1, **CHOSEN)),
    "TreeRank": by_pairs(lambda columns, seed: TreeRank(10, pair_columns=columns, random_state=seed, n_jobs=1)),
    "Splink": splink,
    "Splink, without labels": lambda linkage: splink(linkage, labelled=False),
    "dedupe": dedupe,
}
PACKAGES = {"LightGBM": "lightgbm", "Splink": "splink", "Splink, without labels": "splink", "dedupe": "dedupe"}


# --- measures ---------------------------------------------------------------------------------------------


def threshold(scores: Floats, similar: Bools, rate: float) -> float:
    """The least score that at most this share of the dissimilar pairs exceed."""
    dissimilar = np.sort(scores[~similar])[::-1]
    return float(dissimilar[int(rate * len(dissimilar))])


def measured(linkage: Linkage, scores: Floats) -> list[float]:
    """The true positive rate at each of `RATES`, the false positive rate in use, and the average precision."""
    new, kept, similar = linkage.part == 2, linkage.part == 1, linkage.similar
    found = [float((scores[new & similar] > threshold(scores[new], similar[new], rate)).mean()) for rate in RATES]
    limit = threshold(scores[kept], similar[kept], RATES[0])
    in_use = float((scores[new & ~similar] > limit).mean())
    return [*found, in_use, float(average_precision_score(similar[new], scores[new]))]


def main() -> None:
    """Measure the methods on each population, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--populations", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--households", type=int, default=4000)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # of packages about themselves
    names = [name for name in options.only if name not in PACKAGES or find_spec(PACKAGES[name])]
    print(f"{machine()}\n", flush=True)
    found, seconds = defaultdict(list), defaultdict(list)
    for seed in range(options.first_seed, options.first_seed + options.populations):
        linkage = Linkage.from_population(options.households, seed)
        counts = ", ".join(
            f"{(linkage.part == part).sum():,} ({(linkage.similar & (linkage.part == part)).sum():,}) {use}"
            for part, use in enumerate(("to learn from", "for thresholds", "new"))
        )
        lists = f"lists of {len(linkage.first):,} and {len(linkage.second):,}"
        in_both = linkage.first.person.isin(linkage.second.person).sum()
        lost = f"{linkage.similar.sum():,} of {in_both:,} true pairs are candidates"
        print(f"- population {seed}: {lists}; {lost}; candidates (similar): {counts}", flush=True)
        for name in names:
            start = time.process_time()
            found[name].append(measured(linkage, METHODS[name](linkage)))
            seconds[name].append(time.process_time() - start)
            print(f"{seed} {name}: {np.round(found[name][-1], 4)} {seconds[name][-1]:.1f} s", file=sys.stderr)
    rows = []
    for name in names:
        mean, spread = np.mean(found[name], axis=0), np.std(found[name], axis=0)
        cells = [f"{a:.3f} ± {b:.3f}" for a, b in zip(mean, spread, strict=True)]
        cells[len(RATES)] = f"{mean[len(RATES)]:.4f}"
        rows.append([name, *cells, f"{np.mean(seconds[name]):.0f} s"])
    print()
    print_table(["method", *(f"found at {rate:g}" for rate in RATES), "rate in use", "precision", "processor"], rows)


if __name__ == "__main__":
    main()
