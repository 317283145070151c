"""The rules: one family of stores a file. Files here are found by discovery (core.register)."""
