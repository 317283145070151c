from . import activations as activations
from . import errors as errors
from . import inputs as inputs
from . import ruler as ruler
from . import sharpness as sharpness
from . import stores as stores
from . import theory as theory
from .checks.contract import check as check
from .contract.errors import AssocmemError as AssocmemError
from .contract.errors import InputError as InputError
from .contract.estimate import Estimate as Estimate
from .contract.estimate import Prediction as Prediction
from .contract.register import register as register
from .contract.results import Results as Results
from .contract.slots import Recall as Recall
from .contract.state import Pairs as Pairs
from .contract.state import State as State
from .contract.store import Store as Store
from .contract.traits import Extra as Extra
from .contract.traits import Source as Source
from .contract.traits import Traits as Traits
from .lab.capacity import capacity as capacity
from .lab.measure import measure as measure
from .memory import Memory as Memory
from .stores.lookup import make_store as make_store
from .theory import design as design

__version__: str
