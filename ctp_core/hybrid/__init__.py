"""Evidence and an embedding in one model. The one family that may import others."""
