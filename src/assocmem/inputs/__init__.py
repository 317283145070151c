"""The world: key and value laws, pairs, probes, files, glyphs."""

from assocmem.inputs.directions import at_cosine, unit_rows
from assocmem.inputs.files import array_names, read_array, read_matrix, read_targets
from assocmem.inputs.glyphs import Glyphs, glyph_pairs
from assocmem.inputs.laws import (
    Clustered,
    EqualCosine,
    Gaussian,
    Law,
    Normalised,
    Orthonormal,
    Signs,
    Spectrum,
    Sphere,
    key_law,
    law_names,
    value_law,
)
from assocmem.inputs.pairs import draw_pairs
from assocmem.inputs.probes import Probe, checked_targets, noisy, stored, unseen

__all__ = [
    "Clustered",
    "EqualCosine",
    "Gaussian",
    "Glyphs",
    "Law",
    "Normalised",
    "Orthonormal",
    "Probe",
    "Signs",
    "Spectrum",
    "Sphere",
    "array_names",
    "at_cosine",
    "checked_targets",
    "draw_pairs",
    "glyph_pairs",
    "glyphs",
    "key_law",
    "law_names",
    "noisy",
    "read_array",
    "read_matrix",
    "read_targets",
    "stored",
    "unit_rows",
    "unseen",
    "value_law",
]
