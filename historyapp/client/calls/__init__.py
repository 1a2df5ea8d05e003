"""Every call of the HTTP API, described once. The clients' methods have these names and arguments."""
