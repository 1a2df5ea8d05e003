"""The only writers. Each function is one thing that can be done, carried out in one transaction."""
