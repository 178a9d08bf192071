"""What a forest is and says: node table, leaf tables, artifact, scoring. Imports no growth."""
