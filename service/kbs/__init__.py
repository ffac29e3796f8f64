"""Knowledge bases: upload, list, look into, delete."""
