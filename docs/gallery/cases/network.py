"""
A network: whom to introduce to whom?
=====================================

A law firm takes on new lawyers. Of each it knows the file, but not yet with whom they will
work. Who should meet whom in the first week?

:Source: The co-work network of the Lazega law firm, 71 lawyers, 378 links, 18 binary columns;
   NARM's copy (MIT), packaged with distforest. The copy does not say what its columns mean.
:Smaller here: 20 draws of who is new, 200 trees. ``python docs/gallery/cases/network.py
   --full`` takes 200 draws and 500 trees.
"""

# %%
# The raw data
# ------------
#
# Who works with whom, in the order of a lawyer's number of co-workers, and what is in the
# files.

import sys
from importlib import resources

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from distforest import SMERF, Graph

FULL = "--full" in sys.argv[1:]
DRAWS, TREES = (200, 500) if FULL else (20, 200)
with (
    resources.as_file(resources.files("distforest") / "data" / "lazega.npz") as path,
    np.load(path) as file,
):
    linked, files = file["A"], file["X"].astype(float)
order = np.argsort(-linked.sum(axis=0))
figure, (left, right) = plt.subplots(
    1, 2, figsize=(7, 4.2), width_ratios=(5, 2), layout="constrained"
)
left.imshow(linked[np.ix_(order, order)], cmap="Greys")
left.set(title="who works with whom", xlabel="lawyer", ylabel="lawyer", xticks=[], yticks=[])
right.imshow(files[order], cmap="Greys", aspect="auto")
right.set(title="their files", xlabel="column", ylabel="lawyer", xticks=[], yticks=[])
plt.show()

# %%
# Three introductions for each
# ----------------------------
#
# A third of the lawyers are new in each draw. For each of them we name the three lawyers who
# are not new and to whom a link is most likely. A *hit* is an introduction of two who do work
# together. Beside SMERF: the columns that two files agree in; the busiest lawyers; and
# chance.


def introductions(score, truth):
    """The share of the three best of each row that are linked."""
    best = np.argsort(-score, axis=1, kind="stable")[:, :3]
    return np.take_along_axis(truth, best, axis=1).mean()


found = {}
for draw in range(DRAWS):
    known, new = np.split(
        np.random.default_rng(draw).permutation(len(linked)), [round(2 / 3 * len(linked))]
    )
    graph = Graph(linked[np.ix_(known, known)])
    forest = SMERF(TREES, min_samples_split=4, random_state=draw).fit(files[known], graph)
    truth = linked[np.ix_(new, known)]
    degree = linked[np.ix_(known, known)].sum(axis=0)
    agree = files[new] @ files[known].T
    scores = {
        "SMERF": 1 - forest.distance(files[new], files[known]),
        "files agree": agree + 1e-3 * degree / degree.max(),
        "the busiest": np.tile(degree.astype(float), (len(new), 1)),
    }
    for name, score in scores.items():
        found[draw, name, "hits among three"] = introductions(score, truth)
        found[draw, name, "AUC-ROC"] = roc_auc_score(truth.ravel(), score.ravel())
        found[draw, name, "AUC-PR"] = average_precision_score(truth.ravel(), score.ravel())
    found[draw, "chance", "hits among three"] = found[draw, "chance", "AUC-PR"] = truth.mean()
    found[draw, "chance", "AUC-ROC"] = 0.5
table = pd.Series(found).groupby(level=[1, 2]).mean().unstack()
table.loc[
    ["SMERF", "files agree", "the busiest", "chance"], ["hits among three", "AUC-ROC", "AUC-PR"]
].round(2)

# %%
# The SMERF paper draws such curves for this network in its figure 2, for pairs of two *new*
# lawyers: :doc:`/gallery-made/papers/smerf`.
#
# How likely is a link?
# ---------------------
#
# An introduction costs two people an hour. Is a predicted 0.4 a link in four cases of ten?
# Pairs of the last draw, in five groups by what was predicted.

predicted, truth = (1 - forest.distance(files[new], files[known])).ravel(), truth.ravel()
groups = np.array_split(np.argsort(predicted), 5)
points = np.array([(predicted[own].mean(), truth[own].mean()) for own in groups])
figure, axes = plt.subplots(figsize=(4, 3.4), layout="constrained")
axes.plot([0, 0.45], [0, 0.45], "--", color="#8A8A8A", label="as predicted")
axes.plot(*points.T, "o-", color="#0072B2", label="SMERF")
axes.set(xlabel="predicted", ylabel="share that is linked")
axes.legend(frameon=False)
plt.show()

# %%
# What it means
# -------------
#
# Two files can agree in many columns that do not matter. SMERF has learned from the links of
# the others which matter.
#
# Where it fails
# --------------
#
# - It does not read a newcomer's links: once there are a few, a method that reads the network
#   is better.
# - The network is undirected, unweighted and dense in memory. Of a large one give the links
#   alone, as `Graph` of a sparse matrix.
# - 71 people are few. One draw differs much from the next: look at means over draws, not at
#   one.
