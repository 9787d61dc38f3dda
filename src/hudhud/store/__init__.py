"""The SQL seen as values: calls of functions, named reads, migrations."""
