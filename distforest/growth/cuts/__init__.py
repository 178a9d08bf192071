"""Where a node is cut: what a cut is judged by, and how the best is found."""
