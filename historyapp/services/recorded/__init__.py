"""The requests that led to steps, as far as they were recorded, and how they changed."""
