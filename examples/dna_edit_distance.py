"""DNA strings classified by edit distances; only the distances that the forest needs are computed.

::

    pip install 'distforest[examples]'
    python examples/dna_edit_distance.py                     where 1,000 pieces of DNA may be spliced, if at all
    python examples/dna_edit_distance.py --promoters         which of 106 pieces of DNA are promoters
    python examples/dna_edit_distance.py --quick --picture budget.png

It prints the pairs that forests of growing budgets have paid for, against all pairs, and their accuracy on held-out
strings beside the nearest neighbour's. Nodes that a small budget cannot split become leaves: "closed".
"""

from __future__ import annotations

import budgets
import numpy as np
from rapidfuzz.distance import Levenshtein

from distforest import Lazy, pairwise

N_QUICK = 200


@pairwise
def edit_distance(a: str, b: str) -> float:
    """Letters to insert, delete or replace that make b of a."""
    return Levenshtein.distance(a, b)


def strings_of(name: str, n: int) -> tuple[list[str], np.ndarray]:
    """At most n strings of a set and their labels, drawn at random."""
    with np.load(budgets.DATA / f"{name}.npz") as file:
        chosen = np.random.default_rng(0).permutation(len(file["y"]))[:n]
        return file["seq"][chosen].tolist(), file["classes"][file["y"][chosen]]


def main(arguments: list[str] | None = None) -> None:
    """Compare budgets, and draw them."""
    parser = budgets.parser(__doc__)
    parser.add_argument("--promoters", action="store_true", help="promoters in place of splice junctions")
    parser.add_argument("--size", type=int, default=1000, help="how many strings (1000; there are 3190)")
    options = parser.parse_args(arguments)
    name = "promoters" if options.promoters else "splice_dna"
    strings, y = strings_of(name, N_QUICK if options.quick else options.size)
    lazy = Lazy(edit_distance, strings, kind="distance")
    task = budgets.Task.of(f"{name}, edit distance", lazy, y, test_size=0.3)
    budgets.run(task, options.picture, trees=20 if options.quick else 100)


if __name__ == "__main__":
    main()
