"""The functions that users import, and the engine's question about a frame."""
