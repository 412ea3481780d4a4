"""Time, memory and counts of an update, against one size at a time, beside another checkout."""
