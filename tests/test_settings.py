"""Settings as they are declared: every range, choice and type of every store and map is held to its declaration."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Interval

from assocmem import stores
from assocmem.contract.errors import InputError
from assocmem.contract.register import Variant, register
from assocmem.contract.settings import REQUIRED, Help, Setting, WithSettings, made, settings_of
from assocmem.maps import activations, features
from assocmem.maps.features import DPFP, FEATURE, FeatureMap, Identity
from assocmem.stores import make_store

STORES = {variant.kind for key in stores.names() for variant in stores.entry(key).variants}
MAPS = {
    kind
    for module in (activations, features)
    for kind in vars(module).values()
    if inspect.isclass(kind) and issubclass(kind, WithSettings) and not inspect.isabstract(kind)
}
CLASSES = sorted(STORES | MAPS, key=lambda kind: kind.__name__)
DECLARED = [(kind, setting) for kind in CLASSES for setting in settings_of(kind)]
IDS = [f"{kind.__name__}.{setting.name}" for kind, setting in DECLARED]
NOT_SETTINGS = (b"1", "no such name", 1j, {"a": 1})


def inside(setting: Setting) -> list[Any]:
    """Return values that the declaration takes, the ends of its range among them."""
    values: list[Any] = [None] if setting.optional else []
    values += setting.choices + tuple(setting.named.table if setting.named else ())
    if bool in setting.kinds:
        values += [True, False, np.bool_(True)]
    if int in setting.kinds or float in setting.kinds:
        values += _edges(setting)[0]
        values.append(np.float32(values[-1]) if float in setting.kinds else np.int64(values[-1]))
    if setting.lengths:
        values.append([_edges(setting)[0][0]] * (setting.lengths[0] or 3))
    return [
        value for value in values if value not in ("ssmax", "exp", "exp-series")
    ]  # these need settings of their own


def outside(setting: Setting) -> list[Any]:
    """Return values that the declaration does not take, just outside its range among them."""
    values: list[Any] = [] if setting.optional or (setting.named and setting.named.bare) else [None]
    if object not in setting.kinds and str not in setting.kinds:
        values += NOT_SETTINGS
    if str in setting.kinds:
        values += ["no such text", 3] if setting.choices else [3]
    if bool in setting.kinds:
        values += ["no", 1, 0.0]
    elif int in setting.kinds or float in setting.kinds:
        values += [True, math.nan, -math.inf, "3", 10**400, *_edges(setting)[1]]
        values += [] if setting.infinite else [math.inf]
        values += [] if setting.lengths else [[_edges(setting)[0][0]], np.array([1.0])]
    if setting.lengths:
        inner = _edges(setting)
        values += [(edge,) * (setting.lengths[0] or 2) for edge in (*inner[1], math.nan)]
        values += [(inner[0][0],) * (setting.lengths[0] + 1)] if setting.lengths[0] else []
    if setting.whole:
        values += [1.5, 2.0]
        values.remove(10**400)
    return values


def _edges(setting: Setting) -> tuple[list[Any], list[Any]]:
    """Return the numbers just inside and just outside of a range."""
    step = (lambda x, way: x + math.copysign(1, way)) if setting.whole else math.nextafter
    whole = int if setting.whole else float
    within: list[Any] = []
    beyond: list[Any] = []
    for end, is_open, away in (
        (setting.low, setting.open_low, -math.inf),
        (setting.high, setting.open_high, math.inf),
    ):
        if math.isinf(end):
            within += [end] if setting.infinite and end > 0 else []
        else:
            within.append(whole(step(end, -away) if is_open else end))
            beyond.append(whole(end if is_open else step(end, away)))
    low, high = max(setting.low, -3), min(setting.high, 3)
    within.append(whole((low + high) / 2))
    return within, beyond


def given(kind: type, **settings: Any) -> dict[str, Any]:
    """Return settings with values for those that have no default."""
    needed = {s.name: s for s in settings_of(kind) if s.default is REQUIRED and s.name not in settings}
    return {
        name: np.tanh if not setting.lengths and not _numeric(setting) else 2 for name, setting in needed.items()
    } | (settings)


def _numeric(setting: Setting) -> bool:
    return int in setting.kinds or float in setting.kinds


def breaches(kind: type, setting: Setting) -> list[str]:
    """Return what a class takes or refuses against the declaration of one of its settings."""
    found = []
    for value in inside(setting):
        try:
            kept = getattr(kind(**given(kind, **{setting.name: value})), setting.name)
        except InputError as error:
            if "must be" in str(error) and f"`{setting.name}` of {kind.__name__}" in str(error):
                found.append(f"{value!r} was refused: {error}")
        else:
            if isinstance(kept, np.generic | list):
                found.append(f"{value!r} was kept as {kept!r}")
    for value in outside(setting):
        try:
            kind(**given(kind, **{setting.name: value}))
        except InputError as error:
            if not re.match(r"`\w+` of \w+ must be .+; got .+\.|the \w+ '", str(error)):
                found.append(f"{value!r} was refused in other words: {error}")
        else:
            found.append(f"{value!r} was taken")
    return found


@pytest.mark.parametrize(("kind", "setting"), DECLARED, ids=IDS)
def test_a_setting_takes_what_it_declares_and_nothing_else(kind: type, setting: Setting) -> None:
    assert breaches(kind, setting) == []


@pytest.mark.parametrize(("kind", "setting"), DECLARED, ids=IDS)
def test_a_setting_has_help_that_its_classs_docstring_gives(kind: type, setting: Setting) -> None:
    assert setting.help
    assert not setting.help.endswith(".")
    assert f"\n{setting.name} : {setting.words}" in kind.__doc__
    assert setting.help in kind.__doc__


def test_the_check_finds_a_class_that_does_not_keep_its_declaration() -> None:
    @dataclass(frozen=True)
    class Lax(WithSettings):
        """Checks nothing."""

        rate: Annotated[float, Interval(ge=0, lt=1), Help("a rate")] = 0.5

        def __post_init__(self) -> None:
            pass

    @dataclass(frozen=True)
    class Strict(WithSettings):
        """Refuses more than it says."""

        rate: Annotated[float, Interval(ge=0, lt=1), Help("a rate")] = 0.5

        def check_together(self) -> None:
            if self.rate == 0:
                raise InputError("`rate` of Strict must be a number in (0, 1); got 0.")

    assert {"1.0 was taken", "nan was taken", "True was taken"} <= set(breaches(Lax, *settings_of(Lax)))
    assert "0.0 was refused: `rate` of Strict must be a number in (0, 1); got 0." in breaches(
        Strict, *settings_of(Strict)
    )


def test_more_than_a_hundred_settings_are_tried() -> None:
    assert len(DECLARED) > 90
    assert all(len(outside(setting)) >= 2 for _, setting in DECLARED)


@dataclass(frozen=True)
class Sample(WithSettings):
    """One setting of every kind."""

    share: Annotated[float, Interval(gt=0, le=1), Help("a share", per_pair=True)]
    size: Annotated[int | None, Interval(ge=1, le=8), Help("a size", none="4 d_k")] = None
    steps: Annotated[float | tuple[float, float], Interval(gt=0), Help("steps")] = 1.0
    solver: Annotated[Literal["cg", "direct"], Help("a solver")] = "cg"
    exact: Annotated[bool, Help("whether exact")] = True
    sharp: Annotated[float, Interval(ge=0, le=math.inf), Help("a sharpness")] = 1.0
    feature: Annotated[FeatureMap, FEATURE, Help("a map")] = field(default_factory=Identity)
    chunk: Annotated[int, Interval(ge=1), Help("a chunk")] = field(default=64, compare=False)


WORDS = {
    "share": "a number in (0, 1]",
    "size": "a whole number from 1 to 8 or None for 4 d_k",
    "steps": "a finite number > 0 or a tuple of 2 of them",
    "solver": "one of cg, direct",
    "exact": "True or False",
    "sharp": "a number >= 0 or inf",
    "feature": "one of identity, elu, relu, dpfp, exp-series or a FeatureMap",
    "chunk": "a whole number >= 1",
}


def test_a_declaration_gives_words_defaults_and_bounds() -> None:
    settings = {setting.name: setting for setting in settings_of(Sample)}
    assert {name: setting.words for name, setting in settings.items()} == WORDS
    assert settings["share"].default is REQUIRED
    assert (settings["share"].low, settings["share"].high, settings["share"].open_low) == (0, 1, True)
    assert settings["feature"].default_name == "identity"
    assert [setting.name for setting in settings.values() if setting.tuning] == ["chunk"]
    assert settings["size"].told == "a size: a whole number from 1 to 8 or None for 4 d_k"
    assert settings["share"].told.startswith("a share, unless write is given one for each pair: a number in (0, 1]")
    assert settings_of(int) == ()


def test_a_refusal_names_setting_class_words_and_value() -> None:
    with pytest.raises(InputError) as error:
        Sample(share=0)
    assert str(error.value) == (
        "`share` of Sample must be a number in (0, 1]; got 0. One for each pair is given to write: write(state, keys, "
        "values, share=...)."
    )


def test_a_name_takes_the_settings_of_what_it_names() -> None:
    assert made(Sample, {"share": 1.0, "feature": "dpfp", "nu": 2}, "a sample").feature == DPFP(nu=2)
    assert made(Sample, {"share": 1.0, "feature": DPFP(3)}, "a sample").feature == DPFP(nu=3)
    for wrong, says in (
        ({"nu": 2}, "the feature 'identity' has no setting `nu`; leave it out."),
        ({"feature": "relu", "nu": 2}, "the feature 'relu' has no setting `nu`; leave it out."),
        ({"feature": "dpfp", "terms": 2}, "the feature 'dpfp' has no setting `terms`; it takes nu."),
        ({"feature": DPFP(3), "nu": 2}, "`feature` is DPFP(nu=3) already; give nu to it instead."),
        ({"flavour": 2}, "a sample has no setting 'flavour'; it takes share, size"),
    ):
        with pytest.raises(InputError) as error:
            made(Sample, {"share": 1.0} | wrong, "a sample")
        assert str(error.value).startswith(says)


def test_annotations_that_name_nothing_at_hand_are_settings_without_a_check() -> None:
    @dataclass(frozen=True)
    class Odd(WithSettings):
        """Its annotation cannot be read."""

        thing: Nowhere = None  # type: ignore[name-defined]  # noqa: F821

    assert Odd(thing=3).thing == 3


# ---------------------------------------------------------------------- the register


@pytest.mark.parametrize("key", stores.names())
def test_an_entry_makes_its_store_from_every_default_that_it_shows(key: str) -> None:
    entry = stores.entry(key)
    shown = {s.name: s.default for s in entry.settings if not s.idle and s.default is not REQUIRED}
    assert entry.make(**shown) == entry.make()
    assert all(setting.help for setting in entry.settings)


def test_labels_and_colours_come_from_the_register() -> None:
    own = [colour for key in stores.names() if (colour := stores.entry(key).colour)]
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for colour in own)
    assert len(own) == len(set(own)) >= 15
    assert stores.entry("delta-net").colour == "#E69F00"
    assert stores.entry("delta-net").label == "DeltaNet"
    assert stores.entry("linear-attention").label == "linear attention"


def test_a_key_may_stand_for_settings_and_choose_between_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assocmem.contract.register.entries", mine := {})
    register("one", Variant(stores.entry("delta-net").kind, {"feature": "dpfp", "nu": 3}), defaults={"strength": 0.5})
    assert mine["one"].make().settings() | {"feature": None} == {"chunk": 64, "strength": 0.5, "feature": None}
    assert mine["one"].make(strength=2.0).strength == 2.0
    assert mine["one"].make().feature == DPFP(3)
    with pytest.raises(InputError, match=r"the store 'one' has no setting 'nu'; it takes strength, chunk\."):
        mine["one"].make(nu=2)


def test_settings_of_another_choice_are_refused() -> None:
    with pytest.raises(InputError, match="`max_features` of exp-series is for read='features'; leave it out with"):
        make_store("exp-series", max_features=3)
    with pytest.raises(InputError, match="`readout` of superposed-mlp must be one of outer, whitened; got 'raw'"):
        make_store("superposed-mlp", readout="raw")
    assert make_store("exp-series", max_features=None) == make_store("exp-series")
