"""The version, where everything may read it without importing anything else."""

__version__ = "0.1.0.dev0"
