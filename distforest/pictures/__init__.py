"""Pictures of distances, forests and rankings."""
