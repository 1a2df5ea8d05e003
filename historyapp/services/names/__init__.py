"""The names in actions and results: their index, and where the names of a step came from."""
