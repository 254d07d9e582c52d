"""The training loop and pretraining: one step, and masked words."""
