"""The database: tables, sessions, migrations and its clock."""
