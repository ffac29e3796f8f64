"""Facts and names of KBs as files: Parquet read by DuckDB, and dictionaries that are mapped into memory."""
