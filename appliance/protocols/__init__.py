"""HTTP dialects as pure functions: a body becomes a request, events become bytes."""
