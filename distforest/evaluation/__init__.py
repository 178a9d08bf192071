"""Evaluation of distances and predictions: scores, ROC curves, splits of data, and grids of parameters."""
