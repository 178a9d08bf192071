"""Growth of trees: random numbers, draws, criteria, the grower, the methods."""
