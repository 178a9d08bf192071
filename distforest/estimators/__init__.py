"""Door 1: scikit-learn estimators. They check and convert, call the forests, and name the answers."""
