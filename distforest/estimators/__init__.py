"""Estimators with the interface of scikit-learn: they check and convert inputs, grow forests, and return answers."""
