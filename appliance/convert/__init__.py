"""Other tools' configurations and command lines as a deploy file, and what of them could not be carried over."""
