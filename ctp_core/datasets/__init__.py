"""Knowledge bases, and one file for each format in which they come. Imports no torch."""
