"""The interactive page: `assocmem explore`, a static site, or one self-contained file."""
