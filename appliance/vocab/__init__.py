"""The protocol-free words every layer shares; also the types that travel between server and engine."""
