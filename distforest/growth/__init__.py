"""How a tree comes to be: random numbers, draws, criteria, the grower, the methods."""
