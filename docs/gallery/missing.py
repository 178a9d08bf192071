"""
Similarities that were never observed
=====================================

:class:`distforest.SimForestClassifier` learns from similarities alone, and not all of them
need be known.

:Source: Wines of scikit-learn (UCI). The method: Sathe, Aggarwal (KDD 2017).
"""

# %%
# Wines, of which only the similarities are known; then a share of the pairs is lost. Half of
# the wines teach.

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine

from distforest import SimForestClassifier

X, y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
similar = -cdist(X, X, "cityblock")
teaches = np.arange(len(y)) % 2 == 0
draws = np.triu(np.random.default_rng(0).random(similar.shape), 1)
draws += draws.T + np.eye(len(y))


def accuracy(share: float, rule: str) -> float:
    """The share of the other half that is classified correctly."""
    seen = np.where(draws < share, np.nan, similar)
    forest = SimForestClassifier(on_missing=rule, random_state=0).fit(
        seen[np.ix_(teaches, teaches)], y[teaches]
    )
    return forest.score(seen[np.ix_(~teaches, teaches)], y[~teaches])


# %%
# Four rules for what was lost. By default it is read as the mean of what is known of the same
# object. The others fill in nothing: an object that lacks what a split needs stops there, it
# goes with the majority, or a half of the difference that is known decides. Of many objects
# that stop at the root a fit warns; here that is what we want to see.

import warnings

import matplotlib.pyplot as plt

warnings.filterwarnings("ignore", "DF012 objects lack")  # which the curves show
shares = np.linspace(0, 0.75, 6)
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
COLOURS = {"mean": "#0072B2", "stop": "#8A8A8A", "larger": "#D55E00", "surrogate": "#009E73"}
for rule, colour in COLOURS.items():
    axes.plot(
        shares,
        [accuracy(share, rule) for share in shares],
        "o-",
        color=colour,
        label=f'on_missing="{rule}"',
    )
axes.set(xlabel="share of pairs that were lost", ylabel="accuracy", ylim=(0, 1.03))
axes.legend(frameon=False)
plt.show()
