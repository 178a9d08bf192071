"""What a node may be cut on: columns, sums of them, and pairs of objects."""
