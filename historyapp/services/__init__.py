"""The only code that writes. Each function does one thing, in one transaction."""
