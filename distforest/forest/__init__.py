"""What a forest is and predicts: node table, leaf tables, artifact, scoring. Imports no growth."""
