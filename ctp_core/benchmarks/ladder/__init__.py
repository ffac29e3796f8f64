"""`ctp bench ladder`: KBs of every size with planted rules, what training on them costs, and what it finds."""
