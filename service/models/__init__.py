"""The registry: models, versions, aliases, rules."""
