"""The loop, objectives, checkpoints, progress."""
