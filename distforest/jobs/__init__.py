"""Jobs: spec, plan, cluster, training and batch scoring."""
