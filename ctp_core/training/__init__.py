"""Training loops: losses, early stopping, checkpoints."""
