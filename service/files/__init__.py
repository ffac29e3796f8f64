"""Model files and checkpoints: where they are stored, and which of them nobody needs any more."""
