"""
The surest pairs first
======================

:class:`distforest.TreeRank` orders pairs. Its ROC curve counts most where few dissimilar
pairs are let through.

:Source: Wines of scikit-learn (UCI). The method: Clémençon, Vogel (LOD 2019).
"""

# %%
# All pairs of 89 wines that the forest has not seen.

import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import roc_curve
from sklearn.model_selection import train_test_split

from distforest import TreeRank
from distforest.evaluation.roc import ROC

X, y = load_wine(return_X_y=True)
X, new, y, new_y = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
forest = TreeRank(44, n_pairs=2000, leafrank_depth=3, max_features="sqrt", random_state=0).fit(
    X, y
)
left, right = np.triu_indices(len(new), 1)
similar = new_y[left] == new_y[right]
curve = ROC(*roc_curve(similar, forest.pair_score(new[left], new[right]))[:2])
apart = np.linalg.norm((new[left] - new[right]) / X.std(axis=0), axis=1)
far = ROC(*roc_curve(similar, -apart)[:2])

# %%
# The same curves on both scales.

import matplotlib.pyplot as plt

figure, (whole, first) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
rates = np.geomspace(1e-3, 1, 300)
for name, own, colour in (("TreeRank", curve, "#0072B2"), ("Euclidean", far, "#8A8A8A")):
    whole.plot(own.fpr, own.tpr, color=colour, label=f"{name}: area {own.auc:.3f}")
    first.semilogx(rates, own.at(rates), color=colour)
for axes in (whole, first):
    axes.set(xlabel="false positive rate", ylabel="true positive rate")
whole.legend(frameon=False)
plt.show()

# %%
# The upper cells of one tree: how many similar and dissimilar pairs lie in each, and by what
# they are parted.

from distforest.pictures import TreeDisplay

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
TreeDisplay.from_estimator(forest, depth=2, names=load_wine().feature_names, ax=axes)
plt.show()
