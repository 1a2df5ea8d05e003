"""Model calls: from a request to a stream of deltas, with the same types for every provider.

``model_calls.call_model`` calls a model. ``completions.collect`` combines the deltas into a ``model_output``.
The SDKs are imported at the first model call: importing takes seconds, and most processes never call a model.
"""
