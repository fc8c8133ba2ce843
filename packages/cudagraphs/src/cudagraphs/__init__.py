"""Records a callable as CUDA graphs over one memory pool and replays it safely."""

__version__ = "0.1.0"
