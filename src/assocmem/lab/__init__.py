"""Where stores, inputs, theory and ruler meet: plans, samplers, capacities, a user's own arrays."""
