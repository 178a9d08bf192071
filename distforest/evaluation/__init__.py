"""How good a distance or a prediction is: scores, ROC curves, splits of data, and grids of parameters."""
