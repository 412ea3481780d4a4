"""Task packs: one folder, one pack; each exports `task`."""
