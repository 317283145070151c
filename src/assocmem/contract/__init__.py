"""The words: store, state, recall, traits, settings, register, arrays, errors."""
