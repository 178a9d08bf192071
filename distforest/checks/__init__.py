"""The one room for suspicions: data that are valid, but may not be what the user meant."""
