"""Is it alive, and is every part there?"""
