"""
Which wines are from one grower?
================================

:class:`distforest.RFD` learns a distance from labels. A map of wines that it has not seen
shows what it knows.

:Source: Wines of scikit-learn (UCI). The method: Xiong, Johnson, Xu, Corso (KDD 2012).
"""

# %%
# Half of 178 wines teach the forest: thirteen measurements, three growers. The other half is
# new.

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from distforest import RFD

X, y = load_wine(return_X_y=True)
X, new, y, new_y = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
forest = RFD(100, random_state=0).fit(X, y)
distance = forest.distance(new, new)

# %%
# Principal coordinates put near wines beside each other. Colours and shapes are the growers,
# which the map does not know.

import matplotlib.pyplot as plt

from distforest import principal_coordinates

places = principal_coordinates(distance, 2)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for grower, (colour, marker) in enumerate(
    (("#D55E00", "o"), ("#0072B2", "s"), ("#009E73", "^"))
):
    axes.scatter(
        *places[new_y == grower].T,
        color=colour,
        marker=marker,
        label=f"grower {'ABC'[grower]}",
        alpha=0.8,
    )
axes.set(xlabel="first principal coordinate", ylabel="second principal coordinate")
axes.legend(frameon=False)
plt.show()
