"""Data of the section "why": four derivations, each with numbers that the bars show too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.maps.activations import Exp, Linear, ReLU
from assocmem.page.bars import PAGE_SEED, bars, page_keys
from assocmem.page.offer import COUNTS
from assocmem.theory import capacity, ratio

D, M = 64, 32


def derivations() -> dict[str, Any]:
    """Return the derivations for d_k = 64; text between $ signs is TeX."""
    return {"seed": PAGE_SEED, "derivations": [_outer(), _optimal(), _powers(), _exponential()]}


def _shown(name: str, m: int, beta: float = 8.0) -> float:
    return float(bars(name, D, 1.0, 0, beta)["ratio"][COUNTS.index(m)])


def _expected(name: str, m: int, beta: float = 8.0) -> float:
    return float(bars(name, D, 1.0, 0, beta)["expected"][COUNTS.index(m)])


def _step(text: str, check: str = "", **bars: Any) -> dict[str, Any]:
    """Return one step, with a check and, where the bars show it, the settings that do."""
    return {"text": text, "check": check, **({"bars": bars} if bars else {})}


def _outer() -> dict[str, Any]:
    keys = page_keys(D, 0)[:M]
    overlaps = (keys @ keys.T)[~np.eye(M, dtype=bool)]
    predicted = float(ratio(Linear(), D, M).value or 0)
    return {
        "title": "Outer product: about $d_k$ memories",
        "steps": [
            _step(
                "Writing adds $v_i k_i^\\top$ for every pair, so asking with $k_j$ gives $f(k_j) = v_j (k_j \\cdot k_j) + \\sum_{i \\ne j} v_i\\,(k_i \\cdot k_j)$."
            ),
            _step(
                "The first part is the signal: $k_j \\cdot k_j = 1$. The rest is interference. It would vanish for orthogonal keys, but a space of $d_k$ dimensions has only $d_k$ orthogonal directions."
            ),
            _step(
                "Random unit keys overlap by $\\pm 1/\\sqrt{d_k}$: $\\mathbb{E}\\,(k_i \\cdot k_j)^2 = 1/d_k$.",
                f"$1/64 = {1 / D:.5f}$; the {M} keys of the bars have a mean square overlap of {np.mean(overlaps**2):.5f}.",
                store="outer",
                m=M,
            ),
            _step(
                "The $M-1$ terms add up like a random walk: ratio $= \\sqrt{(M-1)/d_k}$.",
                f"For $M = {M}$ that is {predicted:.3f}; the bars show {_shown('outer', M):.3f} for their one draw.",
                store="outer",
                m=M,
            ),
            _step(
                "It reaches 1 at $M = d_k + 1$, counting the target.",
                f"$d_k = 64$: {capacity(Linear(), D).value:.0f} memories.",
                store="outer",
                m=64,
            ),
        ],
    }


def _optimal() -> dict[str, Any]:
    at96 = _expected("optimal", 96)
    return {
        "title": "Optimal linear: exact up to $d_k$, then twice as far",
        "steps": [
            _step("Choose the matrix that minimises $\\sum_i \\lVert W k_i - v_i \\rVert^2$: $W = V^\\top (K^\\top)^{+}$."),
            _step(
                "Up to $M = d_k$ independent keys there is a matrix without any error: the keys' dual basis answers 1 to its own key and 0 to all others.",
                f"The bars at $M = 64$ show a ratio of {_shown('optimal', 64):.1e}, which is rounding.",
                store="optimal",
                m=64,
            ),
            _step("Above, the weight of memory $i$ in the recall of key $j$ is $P_{ij}$ with $P = K (K^\\top K)^{-1} K^\\top$, a projection: $\\sum_j P_{jj} = d_k$, so $P_{jj} \\approx d_k / M$."),
            _step("A projection is its own square, so $\\sum_{i \\ne j} P_{ij}^2 = P_{jj} - P_{jj}^2$, and the ratio is $\\sqrt{P_{jj} - P_{jj}^2}\\,/\\,P_{jj} \\approx \\sqrt{M/d_k - 1}$.",
                  f"For $M = 96$ expected {at96:.3f} in median; the bars show {_shown('optimal', 96):.3f}.", store="optimal", m=96),
            _step("It reaches 1 at $M = 2 d_k$. The $-1$ is the interference of $d_k$ memories that least squares cancels; with many more memories both linear stores come together."),
        ],
    }  # fmt: skip


def _powers() -> dict[str, Any]:
    squared, cubed = capacity(ReLU(2.0), D).value or 0, capacity(ReLU(3.0), D).value or 0
    return {
        "title": "Powers: squaring turns 0.1 into 0.01 and leaves 1 alone",
        "steps": [
            _step("Read through a function of the likeness: $f(x) = \\sum_i v_i\\,\\sigma(k_i \\cdot x)$. The target's likeness is 1, the others' about $1/\\sqrt{d_k}$."),
            _step("ReLU drops the negative half of the overlaps, half of the mean square: a factor $\\sqrt 2$ in the ratio.",
                  f"At $M = 32$ the bars show {_shown('outer', 32):.3f} for the outer product and {_shown('relu', 32):.3f} for ReLU.", store="relu", m=32),
            _step("A power keeps the signal, $1^p = 1$, and shrinks an overlap to about $d_k^{-p/2}$. So the ratio is about $\\sqrt{M / d_k^{\\,p}}$ and the capacity about $d_k^{\\,p}$, up to a constant."),
            _step("For squared ReLU exactly: $M - 1 = \\tfrac{2}{3}\\,d_k (d_k + 2)$; for cubed ReLU $\\tfrac{2}{15}\\,d_k (d_k+2)(d_k+4)$.",
                  f"$d_k = 64$: {squared:,.0f} and {cubed:,.0f} memories. Squared ReLU's bars at $M = 1024$ show {_shown('squared', 1024):.3f}; expected is {_expected('squared', 1024):.3f}.", store="squared", m=1024),
            _step("Squared ReLU is a gate: $\\max(0, s)^2 = \\max(0, s) \\cdot s$, which is why gated layers such as SwiGLU behave like it."),
        ],
    }  # fmt: skip


def _exponential() -> dict[str, Any]:
    full = capacity(Exp(8.0), D).value or 0
    two, four = bars("exp2", D, 1.0, 0, 8.0)["capacity"], bars("exp4", D, 1.0, 0, 8.0)["capacity"]
    return {
        "title": "Exponential: every power at once",
        "steps": [
            _step("$e^{\\beta s} = \\sum_p (\\beta s)^p / p!$ contains every power; $\\beta$ says how much the high ones count. Softmax divides all weights by their sum, which leaves the ratio as it is."),
            _step("Cut after two terms, $1 + \\beta s$, it is worse than a straight line: the constant gives every memory a weight near 1. Four terms come near squared ReLU.",
                  f"Capacities at $\\beta = 8$: {two:,.0f} with two terms, {four:,.0f} with four, 65 for the straight line.", store="exp2", m=48),
            _step("The target weighs $e^{\\beta}$, the others $e^{\\beta s}$ with $s$ about normal of variance $1/d_k$, so $\\mathbb{E}\\,e^{2 \\beta s} \\approx e^{2\\beta^2/d_k}$ and the ratio is about $\\sqrt{M}\\,e^{\\beta^2/d_k - \\beta}$.",
                  f"For $M = 1024$ and $\\beta = 8$: $32\\,e^{{-7}} = {32 * math.exp(-7):.4f}$; the bars show {_shown('softmax', 1024):.4f}.", store="softmax", m=1024),
            _step("It reaches 1 at $M \\approx e^{2\\beta(1 - \\beta/d_k)}$; with $\\beta = \\sqrt{d_k} = 8$ that is $e^{14}$.",
                  f"$e^{{14}} = {math.exp(14):,.0f}$; exactly, with the true law of likenesses, {full:,.0f}."),
            _step("For a longer context raise $\\beta$ as $\\log M$, no further than needed: as $\\beta \\to \\infty$ softmax picks one memory only and nothing else can learn from it."),
        ],
    }  # fmt: skip
