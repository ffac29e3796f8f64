"""Knowledge bases in memory: facts and graphs, how they are built, checked and split. Imports no torch."""
