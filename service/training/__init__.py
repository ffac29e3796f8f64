"""Training jobs: asking for one, following it, and what workers may write about it."""
