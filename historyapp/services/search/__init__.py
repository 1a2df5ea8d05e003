"""Searches across the sessions of a project: the index, results, suggestions and saved searches."""
