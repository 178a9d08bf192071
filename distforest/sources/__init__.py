"""Numbers in: matrices that answer coordinates, and how they are read, staged and made."""
