"""
Sequences: which pieces of DNA are promoters?
=============================================

A promoter is where the reading of a gene begins. Two pieces of DNA can be aligned, and the
alignment costs. Which pieces are promoters, how many alignments must be paid for, and which
answers can be trusted?

:Source: 106 pieces of E. coli DNA, UCI Molecular Biology (Promoter Gene Sequences), in
   ``examples/data``, which names the copy. The published errors are those of Towell, Shavlik
   and Noordewier 1990, leave-one-out, as the set's own description lists them.
:Smaller here: five folds in place of leave-one-out, three partitions, 50 trees. ``python
   docs/gallery/cases/sequences.py --full`` takes ten partitions and 200 trees. Longer, with a
   command line: ``examples/dna_edit_distance.py``.
"""

# %%
# The raw data
# ------------

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rapidfuzz.distance import Levenshtein
from sklearn.model_selection import StratifiedKFold

from distforest import Lazy, SimForestClassifier, pairwise

FULL = "--full" in sys.argv[1:]
TREES, PARTITIONS = (200, 10) if FULL else (50, 3)
ROOT = Path(sys.argv[0]).resolve().parents[3]
with np.load(ROOT / "examples" / "data" / "promoters.npz") as file:
    strings, y = file["seq"].tolist(), file["y"]
for string, kind in zip(strings[::30], y[::30]):
    print(kind, string)

# %%
# What pairs cost
# ---------------
#
# The function is called only for pairs that a split asks for, and never more often than the
# budget allows. Each point is the mean over five folds; the horizontal line is the nearest
# neighbour, which aligns a new piece with *every* known one.


@pairwise
def edit_distance(a, b):
    """Letters to insert, delete or replace that make b of a."""
    return Levenshtein.distance(a, b)


def forest(budget=None, trees=TREES):
    """A forest that pays for at most so many pairs."""
    similarity = Lazy(edit_distance, strings, kind="distance", budget=budget)
    return SimForestClassifier(similarity, n_estimators=trees, n_pairs=1, random_state=0)


def folds(seed):
    """Numbers of the pieces to learn from, and of those to classify."""
    return StratifiedKFold(5, shuffle=True, random_state=seed).split(y, y)


aligned = np.array([[Levenshtein.distance(a, b) for b in strings] for a in strings])
found = [
    y[train][aligned[np.ix_(test, train)].argmin(axis=1)] == y[test] for train, test in folds(0)
]
nearest = np.concatenate(found).mean()
paid, accuracies = [], []
for share in (0.05, 0.1, 0.2, 0.4, None):
    own = []
    for train, test in folds(0):
        n_pairs = len(train) * (len(train) - 1) // 2
        grown = forest(None if share is None else round(share * n_pairs)).fit(train, y[train])
        own.append((grown.n_evaluations_ / n_pairs, grown.score(test, y[test])))
    paid.append(np.mean(own, axis=0)[0])
    accuracies.append(np.mean(own, axis=0)[1])
figure, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
axes.plot(paid, accuracies, "o-", color="#0072B2", label="forest")
axes.axhline(nearest, color="#8A8A8A", linestyle="--", label="nearest neighbour")
axes.set(xlabel="share of all pairs paid for to fit", ylabel="accuracy", ylim=(0.4, 1))
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Beside the published errors
# ---------------------------
#
# Errors among 106. The published methods compare letters at fixed places, or know what
# biologists know of promoters (KBANN, O'Neill). An edit distance knows neither.

share_of_promoter = np.zeros((PARTITIONS, len(y)))
for seed in range(PARTITIONS):
    for train, test in folds(seed):
        share_of_promoter[seed, test] = forest().fit(train, y[train]).predict_proba(test)[:, 1]
errors = ((share_of_promoter > 0.5) != y).sum(axis=1).mean()
published = {
    "KBANN": 4,
    "neural network": 8,
    "O'Neill": 12,
    "3 nearest neighbours": 13,
    "ID3": 19,
}
ours = {
    "forest, edit distance": errors,
    "nearest neighbour, edit distance": (1 - nearest) * len(y),
}
table = pd.DataFrame({"errors": published | ours}).round(1)
table.assign(source=["published"] * len(published) + ["ours"] * len(ours)).sort_values("errors")

# %%
# Whom to trust
# -------------
#
# The decision: a piece goes to the laboratory if the trees do not agree. If only pieces are
# answered for which the larger share of votes is at least so high, how many are answered, and
# how many of these answers are right?

sure = np.maximum(share_of_promoter, 1 - share_of_promoter)
right = (share_of_promoter > 0.5) == y
LEVELS = (0.5, 0.6, 0.7, 0.8)
rows = {
    level: {"answered": (sure >= level).mean(), "right among them": right[sure >= level].mean()}
    for level in LEVELS
}
pd.DataFrame(rows).T.rename_axis("least share of votes").round(2)

# %%
# What it means
# -------------
#
# A forest needs no features of a string, only a distance, and can say how sure it is. A
# budget bounds the bill before anything is computed.
#
# Where it fails
# --------------
#
# - An edit distance shifts letters, and what decides here is *which* letter is at which
#   place. Methods that look at places with a rule of biology in mind (KBANN), or learn one,
#   are ahead.
# - With so few strings a forest asks for nearly all pairs. The saving comes with thousands:
#   :doc:`/benchmarks/costly`, "Strings and series".
