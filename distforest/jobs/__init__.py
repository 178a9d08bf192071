"""How much work there is, and where it runs: spec, plan, cluster, training, batch scoring."""
