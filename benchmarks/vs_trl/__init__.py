"""vlrft next to TRL's GRPOTrainer on the same model, images, completions and rewards."""
