"""
Two lists, one person: record linkage
=====================================

Two offices keep lists of people. There is no common number. Names, addresses and dates were
typed by hand, some years apart. Which records are one person?

:Source: Made up: no real set of records lies in this repository. ``benchmarks/population.py``,
   shown in full below, makes the lists from a fixed seed. ``benchmarks/linkage.py`` compares
   more methods on larger lists.
"""

# %%
# The raw lists
# -------------
#
# The people live in households of one surname, address and phone number. Some children are
# twins, and some are named after a parent. Between the two lists households move, members
# leave, and some people marry and change their surname. Clerks then leave fields out and make
# mistakes.
#
# .. literalinclude:: ../../../benchmarks/population.py

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_curve

from distforest import RFD, Comparison

ROOT = Path(sys.argv[0]).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
from linkage import (
    FIELDS,
    Linkage,
    crossed,
    frequency,
    logistic,
    mean_similarity,
    mean_year,
    swapped,
    threshold,
)

linkage = Linkage.from_population(1500, seed=0)
linkage.first[list(FIELDS)].head()

# %%
# Blocking
# --------
#
# Two records are a *candidate* if they agree in the first four letters of the surname, the date
# of birth, the phone number, the address, or the start of the given name and the year of birth.
# What blocking loses, nothing later can find.
#
# The households are split into thirds: the methods learn from the first, thresholds are set on
# the second, and the last one is new. Candidates between thirds are left out. A split by pair
# would put members of one household on both sides.

pairs, similar, part = linkage.pairs, linkage.similar, linkage.part
pd.DataFrame(
    {"candidates": np.bincount(part), "of one person": np.bincount(part[similar])},
    index=["to learn from", "for thresholds", "new"],
)

# %%
# Learning from comparisons
# -------------------------
#
# RFD reads records and compares their fields. A comparison is one of the built-in words or a
# function of your own. Here ``crossed`` finds swapped names, and ``frequency`` says how common
# the rarer one of two names is, as a common surname is weak evidence. The parameters were
# chosen on populations of other seeds.

records = pd.concat([linkage.first, linkage.second], ignore_index=True)[list(FIELDS)]
records = records.replace("", None)
records["date"] = pd.to_datetime(records.born)
columns = [
    Comparison("jaro_winkler", "given"),
    Comparison("jaro_winkler", "surname"),
    Comparison("levenshtein", "street"),
    Comparison("jaro_winkler", "town"),
    Comparison("levenshtein", "phone"),
    Comparison("levenshtein", "born"),
    Comparison("date_gap", "date"),
    Comparison(crossed, "given", "surname"),
    Comparison(swapped, "born"),
    Comparison(mean_year, "born"),
    *(Comparison("equal", field) for field in FIELDS),
    *(
        Comparison(frequency(linkage, field), field, name=f"frequency of {field}")
        for field in ("given", "surname")
    ),
]
rows = pairs + np.array([0, len(linkage.first)])  # both lists, one below the other
known = part == 0
forest = RFD(
    60,
    pair_columns=columns,
    random_state=0,
    voting="mean",
    max_features=0.5,
    criterion="entropy",
)
forest.fit_pairs(records, rows[known], similar[known])

# %%
# A logistic regression and gradient boosting learn from a table of the same kind of
# comparisons. The mean of similarities learns nothing.

table = linkage.comparisons.to_numpy()
usual = logistic(1, 1.0).fit(table[known], similar[known])
boosted = HistGradientBoostingClassifier(random_state=0).fit(table[known], similar[known])
scores = {
    "RFD": -forest.pair_distance(records.iloc[rows[:, 0]], records.iloc[rows[:, 1]]),
    "gradient boosting": boosted.decision_function(table),
    "logistic regression": usual.decision_function(table),
    "mean of similarities": mean_similarity(linkage),
}
new = part == 2
figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for (name, own), colour in zip(scores.items(), ("#D55E00", "#0072B2", "#009E73", "#8A8A8A")):
    false, true, _ = roc_curve(similar[new], own[new])
    axes.step(false, true, where="post", color=colour, label=name)
axes.set(xscale="log", xlim=(1e-4, 1), xlabel="false positive rate among candidates")
axes.set(ylabel="true positive rate")
axes.legend(frameon=False)
plt.show()

# %%
# A threshold, and clusters
# -------------------------
#
# One dissimilar candidate in 500 may pass. The threshold is the score that one in 500 of the
# dissimilar candidates of the second third exceeds. Pairs above it are links, and linked
# records are one cluster.

RATE = 1 / 500
kept = part == 1
table_of = {}
for name, own in scores.items():
    linked = new & (own > threshold(own[kept], similar[kept], RATE))
    graph = coo_array((np.ones(linked.sum()), rows[linked].T), shape=(len(records),) * 2)
    sizes = np.bincount(connected_components(graph, directed=False)[1])
    table_of[name] = {
        "false positive rate": (linked & ~similar).sum() / (new & ~similar).sum(),
        "precision": (linked & similar).sum() / max(linked.sum(), 1),
        "recall": (linked & similar).sum() / (new & similar).sum(),
        "clusters of two": (sizes == 2).sum(),
        "larger clusters": (sizes > 2).sum(),
    }
pd.DataFrame.from_dict(table_of, orient="index").round(4)

# %%
# Recall is of the true pairs among the candidates.
#
# What it means
# -------------
#
# All learners find many more true pairs than the mean of similarities. **If you have a table of
# comparisons and want links only, use gradient boosting**: it finds the most true pairs here,
# and it trains faster than RFD. The threshold of RFD lets more dissimilar pairs pass than that
# of the logistic regression; at the same rate both find about as many true pairs here. On the
# larger lists of :doc:`/benchmarks/linkage`, RFD finds more than the logistic regression. Its
# distance also answers which records are nearest. Clusters of two are merged, larger ones go to
# a clerk.
#
# Where it fails
# --------------
#
# - These errors are made up. Rates on your lists will differ: decide on some hundreds of your
#   own candidates, and split them by household.
# - Twins with a missing given name cannot be told apart by anybody.
# - A person who moved, married and has a mistyped date is lost by blocking.
# - A threshold holds for lists of one size. The share of household members among dissimilar
#   candidates falls as lists grow, and the false positive rate falls with it.
