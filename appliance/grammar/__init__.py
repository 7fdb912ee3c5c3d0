"""What an answer must look like, as llguidance understands it."""
