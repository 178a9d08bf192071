"""
Which wines are from one grower?
================================

RFD learns a distance from labels. A map of wines that it has not seen shows what the distance knows.
"""

# %%
# Half of 178 wines teach the forest: thirteen measurements, three growers. The other half is new.

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from distforest import RFD
from distforest.evaluation.roc import roc_curve

X, y = load_wine(return_X_y=True)
X, new, y, new_y = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
forest = RFD(100, random_state=0).fit(X, y)
distance = forest.distance(new, new)

# %%
# Multidimensional scaling puts near wines beside each other. The colours are the growers, whom the map does not know.

from distforest.pictures.plotting import principal_coordinates

places = principal_coordinates(distance, 2)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for grower, colour in enumerate(("#D55E00", "#0072B2", "#009E73")):
    axes.scatter(*places[new_y == grower].T, color=colour, label=f"grower {'ABC'[grower]}", alpha=0.8)
axes.set(xlabel="first principal coordinate", ylabel="second principal coordinate")
axes.legend(frameon=False)
plt.show()

# %%
# How often does a pair from one grower come before a pair from two? The area under this curve.

left, right = [rows.ravel() for rows in (distance.nonzero()[0], distance.nonzero()[1])]
curve = roc_curve(-distance[left, right], new_y[left] == new_y[right])
figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
axes.plot(curve.fpr, curve.tpr, color="#0072B2")
axes.set(title=f"area {curve.auc:.3f}", xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
plt.show()
