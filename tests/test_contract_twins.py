"""The contract's own test: every check rejects its broken twins, and lets sound stores of every kind pass."""

from __future__ import annotations

import pytest

from assocmem.checks import contract
from assocmem.contract.store import Store
from twins import SOUND, TWINS, Twin

CASES = [
    pytest.param(name, twin, id=f"{name}-{type(twin.store).__name__}") for twin in TWINS for name in sorted(twin.checks)
]


@pytest.mark.parametrize(("name", "twin"), CASES)
def test_twin_is_rejected(name: str, twin: Twin) -> None:
    xp = pytest.importorskip(twin.library)
    report = contract.check(twin.store, xp=xp, only=name)
    assert [f.check for f in report.failures][:1] == [name], f"{name} let {twin.store.name} pass: {twin.store.__doc__}"
    assert report.passed == ()
    for finding in report.failures:
        assert len(finding.message.split()) >= 4, f"not a sentence: {finding.message}"


def test_every_check_has_a_twin() -> None:
    without = {c.name for c in contract.checks()} - {name for twin in TWINS for name in twin.checks}
    assert not without, f"checks without a broken twin: {sorted(without)}"


@pytest.mark.usefixtures("nan_memory")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("store", SOUND, ids=lambda s: s.name)
def test_sound_store_passes(store: Store, library: str) -> None:
    report = contract.check(store, xp=pytest.importorskip(library))
    assert report.ok, report.text()
    assert len(report.passed) == len(contract.checks())


def test_names_are_unique_and_promises_are_sentences() -> None:
    checks = contract.checks()
    assert len({c.name for c in checks}) == len(checks)
    for check in checks:
        assert len(check.about.split()) >= 4
        assert check.run.__doc__


def test_unknown_check_is_refused_with_an_offer() -> None:
    from assocmem.contract.errors import InputError, UnknownNameError

    with pytest.raises(UnknownNameError, match="split-law"):
        contract.check(SOUND[0], only="split-laws")
    with pytest.raises(InputError, match=r"assocmem\.Store"):
        contract.check(object())  # type: ignore[arg-type]


def test_report_says_in_words_what_failed() -> None:
    wrong = next(t.store for t in TWINS if "split-law" in t.checks)
    text = contract.check(wrong).text()
    assert "breaks the contract" in text
    assert "write(7) then write(13) must equal write(20)" in text
    assert "NaN" not in contract.check(SOUND[0]).text()


def test_a_report_repeats() -> None:
    wrong = next(t.store for t in TWINS if "split-law" in t.checks)
    assert contract.check(wrong).failures == contract.check(wrong).failures
