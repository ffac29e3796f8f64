"""Training jobs: submitting and following them, and what workers write about them."""
