"""The sealberg command."""
