"""Where a node is cut: what a cut is scored by, and how the best is found."""
