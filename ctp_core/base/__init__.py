"""What the families share: models, trainers, the training loop, edges, evaluation. Imports no family."""
