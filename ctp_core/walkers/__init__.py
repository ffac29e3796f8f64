"""NeuralLP and MINERVA: models that walk from entity to entity along facts."""
