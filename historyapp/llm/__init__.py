"""Model calls: a request in, a stream of deltas out, the same for every provider.

``model_calls.call_model`` makes a call; ``completions.collect`` turns its deltas into one ``model_output``.
The SDKs are imported at the first call: they take seconds, and most processes never call a model.
"""
