"""What the HTTP faces share: keys, problems, exact bodies, the database, waits, metrics."""
