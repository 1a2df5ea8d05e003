"""Model providers: one request in, one stream of deltas out, whoever answers it.

``calling.call_model`` is the way in, ``collecting.collect`` makes one ``model_output`` of what comes out. The
providers' SDKs are imported at the first call: they take seconds, and most processes never call a model.
"""
