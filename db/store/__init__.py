"""The store: connections, the group-commit writer, locks, owners, migrations and the health of the file."""
