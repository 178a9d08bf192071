"""The estimators of scikit-learn's kind: they check and convert inputs, grow forests, and return their answers."""
