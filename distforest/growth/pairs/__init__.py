"""How trees over pairs of points grow."""
