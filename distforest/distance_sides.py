"""The sides of a distance: which distance of a new row to a training row is taken."""

TWO, ONE, CHOSEN = "two", "one", "auto"
SIDED = (TWO, ONE, CHOSEN)
"""The distances of a new row to a training row: of the leaves of both; of the new row's leaf to the training row; the
one that scores better out of bag."""
