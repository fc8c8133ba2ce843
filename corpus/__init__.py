"""Real architectures with random weights, captured and compared with eager.  ``python -m corpus`` runs them all."""
