"""The contract as code: what any store is held to."""
