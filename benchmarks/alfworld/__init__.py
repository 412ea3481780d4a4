"""ALFWorld: generated games, the fast environment against the stock one, faults and memory."""
