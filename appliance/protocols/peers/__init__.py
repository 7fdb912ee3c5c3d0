"""How other servers are spoken to: a request of ours becomes their body, their stream becomes our events. Sans-IO."""
