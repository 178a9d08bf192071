"""Where files are: addresses of any store, folders, groups, and outputs that appear whole or not at all."""
