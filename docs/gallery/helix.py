"""
A helix among noise
===================

:class:`distforest.URerF` is taught nothing. It finds which features depend on each other,
and who is near whom along them.

:Source: Simulated as in Madhyastha et al. (arXiv:1907.02844), whose method it is.
"""

# %%
# Three features are a helix, fifty are noise of the same width.

import numpy as np

from distforest import URerF

rng = np.random.default_rng(0)
along = rng.permutation(np.linspace(2 * np.pi, 9 * np.pi, 400))
helix = np.column_stack([along * np.cos(along), along * np.sin(along), along])
X = np.hstack([helix, rng.normal(scale=70**0.5, size=(400, 50))])
forest = URerF(random_state=0).fit(X)

# %%
# What the screen has found: how likely each feature is to be drawn.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.bar(
    np.arange(53),
    forest.feature_weights_,
    color=np.where(np.arange(53) < 3, "#D55E00", "#8A8A8A"),
)
axes.set(xlabel="feature", ylabel="share of the draws")
plt.show()

# sphinx_gallery_thumbnail_number = 2

# %%
# The proximity of all pairs, in the order along the helix: high along the diagonal, where
# points are neighbours.

order = np.argsort(along)
figure, axes = plt.subplots(figsize=(4.6, 4), layout="constrained")
image = axes.imshow(forest.proximity()[np.ix_(order, order)], cmap="cividis", vmax=0.5)
axes.set(xlabel="along the helix", ylabel="along the helix", xticks=[], yticks=[])
figure.colorbar(image, label="proximity, at most 0.5 shown")
plt.show()
