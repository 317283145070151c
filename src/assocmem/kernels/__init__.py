"""The machines: numerics that several rules share."""
