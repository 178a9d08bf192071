"""
Series: a gun or a finger?
==========================

A hand is filmed: it draws a gun, or only points. The movement is a series of 150 places, and
two movements are compared by dynamic time warping, which lets one run a little ahead of the
other. Which movement is which, and at how many comparisons?

:Source: GunPoint of the UCR/UEA archive, in ``examples/data``, by way of the package aeon
   (BSD-3-Clause).
:Smaller here: 50 trees; the archive's own partition (50 to learn from, 150 new) is used as it
   is. ``python docs/gallery/cases/series.py --full`` takes 300 trees. Longer, with budgets:
   ``examples/series_dtw.py``.
"""

# %%
# The raw data
# ------------

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dtaidistance import dtw

from distforest import Lazy, SimForestClassifier, pairwise

FULL = "--full" in sys.argv[1:]
TREES = 300 if FULL else 50
WINDOW = 7  # steps that two series may be shifted against each other
COLOURS = ("#D55E00", "#0072B2")
ROOT = Path(sys.argv[0]).resolve().parents[3]
with np.load(ROOT / "examples" / "data" / "gun_point.npz") as file:
    series, y, classes, is_known = (
        file["X"].astype(float),
        file["y"],
        file["classes"],
        file["train"],
    )
known, new = np.flatnonzero(is_known), np.flatnonzero(~is_known)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for kind, colour in enumerate(COLOURS):
    axes.plot(series[known[y[known] == kind]].T, color=colour, alpha=0.3, linewidth=0.8)
    axes.plot([], color=colour, label=f"class {classes[kind]}")
axes.set(xlabel="step", ylabel="height of the hand, standardised")
axes.legend(frameon=False)
plt.show()

# %%
# A forest that compares
# ----------------------
#
# ``Lazy`` calls the function for the pairs that splits ask for. Two settings: the default,
# and one for few objects, with *landmarks* (a few series that all others are compared with)
# and the *nearest vote* (a leaf answers with the label of its nearest member). Counted are
# the comparisons to learn, and those to classify 150 new movements.


class Counted:
    """Dynamic time warping that counts how often it is asked."""

    def __init__(self):
        self.n = 0
        self.function = pairwise(lambda a, b: dtw.distance_fast(a, b, window=WINDOW))

    def __call__(self, left, right):
        """Distances of the pairs."""
        self.n += len(left)
        return self.function(left, right)

    def __reduce__(self):
        return Counted, ()


SETTINGS = {
    "forest": {"n_pairs": 1, "bootstrap": False, "min_samples_leaf": 1},
    "forest, landmarks, nearest vote": {
        "n_landmarks": 0.18,
        "voting": "nearest",
        "min_samples_leaf": 20,
        "n_columns": 3,
        "n_pairs": 4,
    },
}
rows = {}
for name, options in SETTINGS.items():
    counted = Counted()
    forest = SimForestClassifier(
        Lazy(counted, series, kind="distance"), n_estimators=TREES, random_state=0, **options
    )
    forest.fit(known, y[known])
    to_learn = counted.n
    votes = forest.predict_proba(new)
    rows[name] = {
        "accuracy": (votes.argmax(axis=1) == y[new]).mean(),
        "comparisons to learn": to_learn,
        "to classify": counted.n - to_learn,
    }
warped = dtw.distance_matrix_fast(np.vstack([series[known], series[new]]), window=WINDOW)[
    len(known) :, : len(known)
]
straight = np.linalg.norm(series[new][:, None] - series[known], axis=2)
for name, distance in (
    ("nearest neighbour, warped", warped),
    ("nearest neighbour, Euclid", straight),
):
    found = y[known][distance.argmin(axis=1)]
    rows[name] = {
        "accuracy": (found == y[new]).mean(),
        "comparisons to learn": 0,
        "to classify": distance.size,
    }
pd.DataFrame(rows).T.round(3).astype({"comparisons to learn": int, "to classify": int})

# %%
# For scale: aeon's ProximityForest, which chooses among eleven kinds of distances, has 99.3 %
# on this partition (:doc:`/benchmarks/costly`, "Strings and series").
#
# When to ask a human
# -------------------
#
# The decision of a guard: an alarm if the forest is sure, a look at the film if it is not.
# Among the 150 new movements, the share that is decided by the machine against the share of
# these that is right:

forest = SimForestClassifier(
    Lazy(Counted(), series, kind="distance"),
    n_estimators=TREES,
    random_state=0,
    **SETTINGS["forest"],
).fit(known, y[known])
votes = forest.predict_proba(new)
sure, right = votes.max(axis=1), votes.argmax(axis=1) == y[new]
levels = np.linspace(0.5, 0.95, 10)
decided = np.array([(sure >= level).mean() for level in levels])
correct = np.array(
    [right[sure >= level].mean() if (sure >= level).any() else np.nan for level in levels]
)
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(decided, correct, "o-", color="#0072B2")
axes.set(xlabel="share decided by the machine", ylabel="right among these")
plt.show()

# %%
# What it means
# -------------
#
# The forest classifies series of which it sees nothing but distances, and says which it is
# unsure of. Compare the rows of the table: with landmarks and the nearest vote it needs the
# fewest comparisons to learn, and stands beside the nearest neighbour.
#
# Where it fails
# --------------
#
# - With fifty objects there is nothing to save: a forest asks for most pairs. On this set it
#   is the nearest neighbour by way of leaves.
# - A method that may choose among several distances is ahead of any single one.
