"""The rules: one family of stores a file. Files here are found by discovery (stores.lookup).

The package can be called: `assocmem.stores()` lists the keys of all stores, though importing any of them makes
`assocmem.stores` this package.
"""

import sys
from types import ModuleType


class _Stores(ModuleType):
    def __call__(self) -> tuple[str, ...]:
        """Return the keys of all stores (see `assocmem.stores.lookup.stores`)."""
        from assocmem.stores.lookup import stores

        return stores()


sys.modules[__name__].__class__ = _Stores
