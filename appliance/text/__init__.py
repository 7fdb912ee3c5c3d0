"""Generated text into typed deltas: pure and sans-IO."""
