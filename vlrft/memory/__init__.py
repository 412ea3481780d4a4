"""Peak memory from shapes alone: what each part of a run holds, by formula. No torch; `sizing` reads the shapes."""
