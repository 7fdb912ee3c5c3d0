"""One file per serving command: its flags, each with our key or the reason why there is none."""
