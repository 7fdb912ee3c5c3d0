"""One file per configuration format that is read."""
