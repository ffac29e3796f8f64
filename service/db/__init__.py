"""The database: tables, sessions, and its clock."""
