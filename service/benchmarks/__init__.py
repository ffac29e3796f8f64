"""How fast the service answers: `ctp bench serve`."""
