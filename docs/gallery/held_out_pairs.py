"""
Links that nobody asked about
=============================

:class:`distforest.SMERF` learns from the pairs of which something is known, and says what the
others are: the second scheme of its paper, which holds out pairs and not rows.

:Source: The co-work network of the Lazega law firm, 71 lawyers, 378 links, 18 binary columns;
   NARM's copy (MIT), packaged with distforest. The method: Tomita, Vogelstein.
"""

# %%
# Who works with whom is asked pair by pair. NaN is a pair that nobody asked about: not a pair
# that does not work together, which is 0.

from importlib import resources

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from distforest import SMERF, Graph

with (
    resources.as_file(resources.files("distforest") / "data" / "lazega.npz") as path,
    np.load(path) as file,
):
    linked, files = file["A"].astype(float), file["X"].astype(float)
draws = np.triu(np.random.default_rng(0).random((5, *linked.shape)), 1)
draws += np.swapaxes(draws, 1, 2)


def told(share: float, filler: float) -> tuple[float, float]:
    """Area under the ROC curve of the unasked pairs, and the share of links expected there."""
    area, expected = [], []
    for draw in draws:
        unasked = np.triu(draw > share, 1)
        known = np.where(unasked | unasked.T, filler, linked)
        forest = SMERF(100, min_samples_split=4, random_state=0).fit(files, Graph(known))
        likely = 1 - forest.distance(files)[unasked]
        area.append(roc_auc_score(linked[unasked], likely))
        expected.append(likely.mean())
    return np.mean(area), np.mean(expected)


# %%
# The more pairs were asked about, the better the others are told apart. A forest that takes
# unasked pairs for unlinked ones is behind where few were asked, and it expects far too few
# links among them: it was taught that they are none.

shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for filler, colour, label in (
    (np.nan, "#0072B2", "NaN where nobody asked"),
    (0.0, "#D55E00", '"no link" where nobody asked'),
):
    area, expected = np.transpose([told(share, filler) for share in shares])
    left.plot(shares, area, "o-", color=colour, label=label)
    right.plot(shares, expected, "o-", color=colour)
upper = np.triu_indices(len(linked), 1)
right.axhline(
    linked[upper].mean(), color="#8A8A8A", linestyle="--", label="links among all pairs"
)
left.set(xlabel="share of pairs that were asked about", ylabel="area under the ROC curve")
right.set(
    xlabel="share of pairs that were asked about",
    ylabel="links expected among the others",
    ylim=(0, None),
)
left.legend(frameon=False)
right.legend(frameon=False, loc="lower right")
plt.show()
