"""Messages between the server and an engine."""
