"""The writing of code: values, effects, graph breaks and restarts to instructions."""
