"""The words: types, the store contract, register, arrays, random streams, errors, results."""
