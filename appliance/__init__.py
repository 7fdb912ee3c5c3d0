"""A declarative serving appliance for language models on MLX."""

__version__ = "0.1.0"
