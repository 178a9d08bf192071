"""The display of one tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from distforest.estimators.tree_rank import TreeRank
from distforest.pictures.boxes import DrawnTree
from distforest.pictures.closeness import check_forest
from distforest.pictures.display import Display
from distforest.pictures.node_boxes import drawn_nodes
from distforest.pictures.pictured import check_drawn
from distforest.pictures.ranking_plots import DEPTH, drawn_ranking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


class TreeDisplay(Display):
    """The upper nodes of a tree, or cells of a ranking tree: what they hold, and by what they are split.

    The cells of a ranking tree stand at their scores, the most similar pairs on the left. A single split is described
    in words. Of a larger small tree the number of its nodes is shown, and the column that the first one reads.

    Parameters
    ----------
    tree : DrawnTree
        The tree.
    shallower : bool
        Whether the deepest levels may be left out if given axes have little room.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import TreeRank
    >>> forest = TreeRank(1, n_pairs=500, leafrank_depth=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> TreeDisplay.from_estimator(forest, depth=2).figure_
    <Picture size 680x490 with 1 Axes>
    """

    def __init__(self, tree: DrawnTree, *, shallower: bool = False) -> None:
        check_drawn(tree, DrawnTree)
        self.tree, self.shallower = tree, shallower

    @classmethod
    def from_estimator(
        cls,
        forest: Any,
        tree: int = 0,
        *,
        depth: int | None = None,
        names: Sequence[str] = (),
        ax: Axes | None = None,
    ) -> Self:
        """Draw a tree of a forest.

        Parameters
        ----------
        forest
            A fitted estimator, or one opened by `distforest.load`.
        tree
            Number of the tree.
        depth
            Largest depth that is drawn, 1 to 6; None: 3, or less if given axes have no room for it.
        names
            Names of the features, or of the training objects of a forest on similarities; if empty, those of the
            forest, or numbers.
        ax
            As of `plot`; the text is smaller if there is little room.

        Raises
        ------
        InputError
            There is no such tree, there is not one name for each column, or the depth is out of range.

        Warns
        -----
        DistforestWarning
            The given axes have no room for the text to this depth.
        """
        own, levels = check_forest(forest), DEPTH if depth is None else depth
        drawn = drawn_ranking if isinstance(own, TreeRank) else drawn_nodes
        return cls(drawn(own, tree, levels, names), shallower=depth is None).plot(ax)

    def _size(self) -> tuple[float, float]:
        return self.tree.size

    def _draw(self, axes: Axes, is_given: bool) -> None:
        if is_given:
            self.tree.draw_on_given(axes, self.shallower)
        else:
            self.tree.draw(axes)
