"""Real architectures with random weights, captured and compared with eager.  ``python -m corpus`` runs them all;
``python -m corpus.operators`` lists what of them has no kernel of ours."""
