"""What a forest over pairs of points predicts."""
