"""assocmem: associative memory stores in neural networks, measured on one ruler beside exact theory.

The public names stand in `__init__.pyi`, for checkers, editors and this module alike. They are loaded on first touch:
`import assocmem` stays fast and loads neither numpy, scipy, torch nor any plotting.
"""

import lazy_loader

from assocmem._version import __version__

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]
