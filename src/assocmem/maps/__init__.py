"""The shapes: activations, feature maps, sharpness."""
