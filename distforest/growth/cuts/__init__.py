"""Cuts of nodes: the criteria that score them, and the searches for the best one."""
