"""Storage of files: addresses of any store, folders, groups, and outputs that appear as a whole or not at all."""
