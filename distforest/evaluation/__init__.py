"""How good a distance is: scores, curves, and simulated data with a known truth."""
