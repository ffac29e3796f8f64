"""`select`: from the predicate of a goal to the bodies of the rules worth trying. One file for each variant."""
