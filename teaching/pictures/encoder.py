"""The encoder: masks of attention, and poolings."""
