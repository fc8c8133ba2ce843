"""From what evaluation left behind to instructions: values, effects, breaks, restarts."""
