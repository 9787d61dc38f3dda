"""hudhud: everything that must happen after the request, on one PostgreSQL."""
