"""How good a distance is: scores, curves, and known data whose truth an answer can be held against."""
