"""Similarities that are asked for when they are needed: a user's function, and what it has answered."""
