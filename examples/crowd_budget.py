"""Images classified by the answers of a paid crowd, pair by pair: noisy answers, some missing, and a budget.

::

    pip install 'distforest[plot]'
    python examples/crowd_budget.py                    357 handwritten threes and eights
    python examples/crowd_budget.py --quick --picture budget.png

The images are real (scikit-learn's digits), the crowd is simulated. It rates the similarity of two
images from 0 (not at all similar) to 10 (the same): the similarity of the pixels, plus or minus a point or two. One
question in seven has no answer. Every answer costs, so a forest has a budget; a missing answer is not requested again.
A split that needs a missing answer sends the image down the larger branch. The similarity of an image to itself is also
a question, so a forest can pay for a few more than all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import budgets
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import cosine_similarity

from distforest import Lazy

CLASSES = (3, 8)
N_QUICK = 160
HIGHEST = 10
NOISE = 1.5  # standard deviation of an answer, in points
SHARE_UNANSWERED = 1 / 7


@dataclass(frozen=True)
class Crowd:
    """What the crowd would say of each pair, shape (n, n); NaN: nobody answers."""

    answers: np.ndarray

    @classmethod
    def looking_at(cls, images: np.ndarray) -> Crowd:
        """A crowd before these images, shape (n, n_pixels); asked twice about a pair it says the same."""
        rng, n = np.random.default_rng(0), len(images)
        alike = cosine_similarity(images)
        points = HIGHEST * (alike - alike.min()) / (alike.max() - alike.min()) + NOISE * rng.standard_normal((n, n))
        answers = np.clip(np.rint(points), 0, HIGHEST)
        answers[rng.random((n, n)) < SHARE_UNANSWERED] = np.nan
        answers = np.triu(answers, 1)
        return cls(answers + answers.T + HIGHEST * np.eye(n))

    def __call__(self, left: list[int], right: list[int]) -> np.ndarray:
        """Answers to questions about pairs of images, given by number, shape (n,)."""
        return self.answers[left, right]


def main(arguments: list[str] | None = None) -> None:
    """Compare budgets, and draw them."""
    options = budgets.parser(__doc__).parse_args(arguments)
    images, y = load_digits(return_X_y=True)
    chosen = np.flatnonzero(np.isin(y, CLASSES))[: N_QUICK if options.quick else None]
    lazy = Lazy(Crowd.looking_at(images[chosen]), np.arange(len(chosen)), kind="similarity")
    task = budgets.Task.of("Threes and eights, as a crowd sees them", lazy, y[chosen], test_size=0.3)
    budgets.run(task, options.picture, trees=20 if options.quick else 100, on_missing="larger")


if __name__ == "__main__":
    main()
