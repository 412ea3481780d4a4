"""One file a pack; `make(folder)` writes its data set. `_pictures` and `_tables` draw and write."""
