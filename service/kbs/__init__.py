"""Knowledge bases: upload, list, browse, export, delete."""
