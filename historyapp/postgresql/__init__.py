"""A database backend of Django, see :mod:`historyapp.postgresql.base`."""
