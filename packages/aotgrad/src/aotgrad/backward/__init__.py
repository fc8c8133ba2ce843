"""The autograd functions around compiled graphs: when backward is compiled, for which tangents, and gradients of
gradients."""
