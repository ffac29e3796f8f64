"""The page at `/` and the description of the calls at `/docs`: files, and the headers they are sent with."""
