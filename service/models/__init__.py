"""The registry of models: versions, aliases, rules, comparisons, archives."""
