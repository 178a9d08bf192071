"""
A messy table: categories and missing values
============================================

Your table has categorical features, and some values are missing. SMERF, URerF, RFD and
TreeRank take it as it is. The similarities of SimForest take missing values, but no categories.
What is the honest way to give a forest such a table, and what does it cost?

:Source: The wines of scikit-learn (UCI), made messy by the function ``messy`` below: this
   repository holds no real table of that kind. So the intact table is known, and the loss can
   be measured.
"""

# %%
# The raw table
# -------------
#
# Three measurements are only known as categories. Of all other cells a share is empty. The
# proline is missing more often where it is high, as real values are seldom missing at random.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import mode
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from distforest import RFD, SMERF, SimForestClassifier
from distforest.errors import InputError

WORDS = {
    "alcohol": ["light", "medium", "strong"],
    "color_intensity": ["pale", "bright", "dark", "deep"],
    "hue": ["brown", "red", "violet"],
}
COLOURS = ("#000000", "#CC79A7", "#0072B2", "#56B4E9", "#009E73", "#D55E00")


def messy(table, share, seed):
    """Words in place of three columns, and about a share of the cells empty."""
    rng = np.random.default_rng(seed)
    found = table.copy()
    for column, words in WORDS.items():
        found[column] = pd.qcut(table[column], len(words), labels=words).astype(object)
    lost = rng.random(table.shape) < share
    lost[:, table.columns.get_loc("proline")] |= (table["proline"] > 1000) & (
        rng.random(len(table)) < 2 * share
    )
    return found.mask(lost)


wine = load_wine(as_frame=True)
table, grower = wine.data, wine.target.to_numpy()
raw = messy(table, 0.2, seed=0)
raw[["alcohol", "color_intensity", "hue", "malic_acid", "proline"]].head(6).astype(
    object
).fillna("")

# %%
# What happens if you try
# -----------------------

try:
    SimForestClassifier("manhattan").fit(raw, grower)
except InputError as error:
    print(error)

# %%
# Six ways
# --------
#
# - *As it is, RFD*: it reads whether the categories of two rows differ and which two they are,
#   and sends a missing value where the training pairs without a value gained most.
# - *As it is, SMERF*: it splits categories into two sets, and treats missing values likewise.
# - *Ordered words, medians*: categories become 0, 1, 2 by their order, and the median of a
#   column stands for its missing values.
# - *The same, and where holes were*: a further column for each with missing values, 1 where a
#   cell was empty.
# - *One column a word, neighbours*: a column for each category; the five nearest rows fill the
#   missing values.
# - *Similarities, holes left*: no filling at all. Two wines are compared by the columns that
#   both have (Gower's similarity), and a SimForest learns from these similarities, some of
#   which may be missing.
#
# Each way is fitted on the training part alone: a median that has seen the test rows would
# leak. The intact table, which nobody has, is the mark.

numbers = [column for column in table.columns if column not in WORDS]
ordered = OrdinalEncoder(
    categories=list(WORDS.values()),
    handle_unknown="use_encoded_value",
    unknown_value=np.nan,
    encoded_missing_value=np.nan,
)
single = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
WAYS = {
    "ordered words, medians": make_pipeline(
        make_column_transformer((ordered, list(WORDS)), remainder="passthrough"),
        SimpleImputer(strategy="median"),
    ),
    "the same, and where holes were": make_pipeline(
        make_column_transformer((ordered, list(WORDS)), remainder="passthrough"),
        SimpleImputer(strategy="median", add_indicator=True),
    ),
    "one column a word, neighbours": make_pipeline(
        make_column_transformer((single, list(WORDS)), (StandardScaler(), numbers)),
        KNNImputer(n_neighbors=5),
    ),
}


def by_rfd(known, new, y):
    """Labels of new rows by five neighbours under the learned distance."""
    return RFD(60, n_constraints=500, random_state=0).fit(known, y).distance(new, known)


def by_smerf(known, new, y):
    """The same by a forest that reads the table as it is."""
    return SMERF(60, random_state=0).fit(known, y).distance(new, known)


def gower(one, other, spread):
    """How alike two rows are in the columns that both have; NaN if there are none."""
    apart = []
    for column in one.columns:
        left, right = one[column].to_numpy()[:, None], other[column].to_numpy()
        if column in WORDS:
            gap = np.where(
                pd.isna(left) | pd.isna(right), np.nan, (left != right).astype(float)
            )
        else:
            gap = np.abs(left - right) / spread[column]
        apart.append(gap)
    known = np.isfinite(apart).sum(axis=0)
    return 1 - np.divide(
        np.nansum(apart, axis=0), known, out=np.full(known.shape, np.nan), where=known > 0
    )


def accuracy(share):
    """Accuracy of each way, the mean over four folds."""
    own = messy(table, share, seed=1)
    found = []
    for train, test in StratifiedKFold(4, shuffle=True, random_state=0).split(table, grower):
        y, truth = grower[train], grower[test]
        distances = {
            "intact table": by_rfd(table.iloc[train], table.iloc[test], y),
            "as it is, RFD": by_rfd(own.iloc[train], own.iloc[test], y),
            "as it is, SMERF": by_smerf(own.iloc[train], own.iloc[test], y),
        }
        for name, way in WAYS.items():
            known = way.fit_transform(own.iloc[train])
            distances[name] = by_rfd(known, way.transform(own.iloc[test]), y)
        row = {}
        for name, apart in distances.items():
            votes = y[np.argsort(apart, axis=1)[:, :5]]
            row[name] = np.mean(mode(votes, axis=1).mode == truth)
        spread = own.iloc[train][numbers].max() - own.iloc[train][numbers].min()
        forest = SimForestClassifier(n_estimators=100, on_missing="surrogate", random_state=0)
        forest.fit(gower(own.iloc[train], own.iloc[train], spread), y)
        row["similarities, holes left"] = forest.score(
            gower(own.iloc[test], own.iloc[train], spread), truth
        )
        found.append(row)
    return pd.DataFrame(found).mean()


SHARES = (0.05, 0.2, 0.4)
accuracies = pd.DataFrame({f"{share:.0%} empty": accuracy(share) for share in SHARES})
accuracies.round(3)

# %%
# The same as a picture:

figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
axes.axhline(
    accuracies.loc["intact table"].mean(), color="#8A8A8A", linestyle="--", label="intact table"
)
for name, colour in zip(accuracies.index[1:], COLOURS):
    axes.plot(SHARES, accuracies.loc[name], "o-", color=colour, label=name)
axes.set(xlabel="share of cells that are empty", ylabel="accuracy")
axes.legend(frameon=False, fontsize=8)
plt.show()

# %%
# What filling does to a distance
# -------------------------------
#
# The decision that a distance is for: which wine is most like this one? Here are the
# distances of pairs of wines in the table filled by medians, by how many columns of the pair
# were filled, beside the distances of the same pairs in the intact table.

raw = messy(table, 0.3, seed=0)
filled = WAYS["ordered words, medians"].fit_transform(raw)
forests = {
    "filled": RFD(60, n_constraints=500, voting="mean", random_state=0)
    .fit(filled, grower)
    .distance(filled),
    "intact": RFD(60, n_constraints=500, voting="mean", random_state=0)
    .fit(table, grower)
    .distance(table),
}
left, right = np.triu_indices(len(raw), 1)
holes = raw.isna().to_numpy()
count = (holes[left] | holes[right]).sum(axis=1)
growers = np.where(grower[left] == grower[right], "one grower", "two growers")
groups = pd.cut(count, [-1, 4, 6, 8, 13], labels=["0 to 4", "5, 6", "7, 8", "9 and more"])
distances = pd.DataFrame(
    {name: own[left, right] for name, own in forests.items()} | {"growers": growers}
)
distances.groupby(
    [pd.Series(groups, name="columns filled"), "growers"], observed=True
).mean().unstack().round(2)

# %%
# The more columns are filled, the nearer the two move together: wines of two growers look more
# alike, and wines of one grower less. In the intact table they do not.
#
# What it means
# -------------
#
# Begin with the table as it is. For similarities, which take no categories, use scikit-learn's
# encoders in a pipeline, so that they are fitted on training rows alone. If categories have an
# order, encode it by numbers. Indicator columns are worth trying if a missing value says
# something about what you predict.
#
# Where it fails
# --------------
#
# - A filled cell looks like a measured one, and its distance is too sure. No forest that is
#   given filled cells knows the difference.
# - A column for each category multiplies columns, and ``max_features`` then draws categories
#   more often than numbers.
# - If you only want to predict the grower, scikit-learn's ``HistGradientBoostingClassifier``
#   takes missing values and categories as they are.
