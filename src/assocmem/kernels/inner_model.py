"""The small network that a memory trains while it reads: forward and backward by hand, arrays of any namespace.

    f(x) = [x +] [LN](W_L g(... g(W_1 x + b_1) ...) + b_L),   g the tanh form of GELU

The gradient of one pair's loss with respect to W_l is an outer product, error_l input_l^T (and error_l for b_l), so
what n pairs do to the network is kept as two rows a layer and pair. Weights after a step are then read in either
form, with the same result: W_l - sum_s share_s error_s input_s^T is a matrix (primal), and its product with x is
W_l x minus attention over the inputs (dual).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.numbers import stream
from assocmem.contract.state import State

Layer: TypeAlias = Callable[[int, Array], Array]
"""(index of a layer, its inputs (..., m, in)) -> its outputs before the nonlinearity (..., m, out)."""

NORM_EPSILON = 1e-6
"""Added to the variance in LayerNorm."""
_STEEPEST = 1.13
"""Largest slope of the tanh form of GELU, rounded up."""
_SQRT_2_PI = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class Factors:
    """Gradients of n pairs as outer products, one entry of the tuples for each layer.

    inputs: (*batch, n, in). errors: (*batch, n, out). rates: (*batch, n), how much each pair's gradient counts.
    gains: (*batch, n, layers), upper bounds of how strongly a layer's output moves f(k); None where all are 1.
    """

    inputs: tuple[Array, ...]
    errors: tuple[Array, ...]
    rates: Array
    gains: Array | None = None

    @property
    def n(self) -> int:
        """Number of pairs."""
        return int(self.rates.shape[-1])

    def rows(self, at: slice) -> Factors:
        """Return the gradients of some of the pairs."""
        return Factors(
            tuple(a[..., at, :] for a in self.inputs),
            tuple(e[..., at, :] for e in self.errors),
            self.rates[..., at],
            None if self.gains is None else self.gains[..., at, :],
        )

    def then(self, later: Factors) -> Factors:
        """Return these gradients followed by `later` ones."""
        xp = ar.namespace(self.rates)
        join: Callable[[Array, Array], Array] = lambda a, b: xp.concat([a, b], axis=-2)  # noqa: E731
        return Factors(
            tuple(map(join, self.inputs, later.inputs)),
            tuple(map(join, self.errors, later.errors)),
            xp.concat([self.rates, later.rates], axis=-1),
            None if self.gains is None else join(self.gains, later.gains),
        )


@dataclass(frozen=True)
class InnerModel:
    """The architecture of the network; its weights are a mapping of arrays with batch axes first.

    hidden: widths of the hidden layers, () for a linear model. bias: whether layers have biases. norm: whether the
    output goes through LayerNorm (unit gain, no shift). residual: whether f(x) = x + ..., for d_k = d_v.

    Weights are called "W" (*batch, out, in) and "b" (*batch, out), with the number of the layer behind where there
    are several.
    """

    hidden: tuple[int, ...] = ()
    bias: bool = True
    norm: bool = False
    residual: bool = False

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.hidden) + 1

    def name(self, kind: str, layer: int) -> str:
        """Return the name of a weight array of layer 0, 1, ..."""
        return kind if self.depth == 1 else f"{kind}{layer + 1}"

    def shapes(self, d_k: int, d_v: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight array without batch axes."""
        widths = (d_k, *self.hidden, d_v)
        shapes: dict[str, tuple[int, ...]] = {}
        for i in range(self.depth):
            shapes[self.name("W", i)] = (widths[i + 1], widths[i])
            if self.bias:
                shapes[self.name("b", i)] = (widths[i + 1],)
        return shapes

    def drawn(self, state: State, spread: float, seed: int, hidden_spread: float | None = None) -> dict[str, Array]:
        """Return starting weights W ~ N(0, spread^2), b = 0, the same for every batch item.

        spread: standard deviation >= 0 of the last layer; hidden_spread: of the others, None for 1/sqrt(fan-in).
        Drawn in float64 from `seed`, whatever the state's dtype and library.
        """
        weights = {}
        for name, shape in self.shapes(state.d_k, state.d_v).items():
            weights[name] = state.zeros(*shape)
            scale = spread
            if name not in (self.name("W", self.depth - 1), "b"):
                scale = 1 / math.sqrt(max(1, shape[-1])) if hidden_spread is None else hidden_spread
            if len(shape) == 2 and scale:
                drawn = scale * stream(seed, "inner model", name, *shape).standard_normal(shape)
                weights[name] = weights[name] + state.xp.asarray(drawn, dtype=state.dtype, device=state.device)
        return weights

    # ------------------------------------------------------------------ forward

    def forward(self, layer: Layer, x: Array) -> Array:
        """Return f(x) (..., m, d_v) for x (..., m, d_k), with the affine maps `layer`."""
        out = layer(self.depth - 1, self.last_inputs(layer, x))
        if self.norm:
            out = normalised(out)[0]
        return x + out if self.residual else out

    def last_inputs(self, layer: Layer, x: Array) -> Array:
        """Return what the last layer is given: x itself, or the last hidden layer's activity."""
        for i in range(self.depth - 1):
            x = gelu(layer(i, x))
        return x

    def plain(self, weights: Mapping[str, Array]) -> Layer:
        """Return the affine maps W_l a + b_l."""

        def layer(i: int, a: Array) -> Array:
            z = a @ ar.transpose(weights[self.name("W", i)])
            return z + weights[self.name("b", i)][..., None, :] if self.bias else z

        return layer

    def trained(self, weights: Mapping[str, Array], factors: Factors, shares: Array) -> Layer:
        """Return the affine maps after training steps, read in dual form.

        shares: (..., m, n); input row m sees the weights W_l - sum_s shares[m, s] rate_s error_s input_s^T.
        """
        plain = self.plain(weights)
        shares = shares * factors.rates[..., None, :]

        def layer(i: int, a: Array) -> Array:
            similar = a @ ar.transpose(factors.inputs[i])
            if self.bias:
                similar = similar + 1
            return plain(i, a) - (shares * similar) @ factors.errors[i]

        return layer

    # ------------------------------------------------------------------ backward

    def factors(self, weights: Mapping[str, Array], keys: Array, values: Array, rates: Array) -> Factors:
        """Return the gradients of 1/2 |f(k) - v|^2 for each pair, as outer products; rates (*batch, n) go along.

        Cost per pair: one forward pass and one backward pass without the weights' gradients.
        """
        xp = ar.namespace(keys)
        layer, inputs, slopes = self.plain(weights), [keys], []
        for i in range(self.depth - 1):
            z = layer(i, inputs[-1])
            inputs.append(gelu(z))
            slopes.append(gelu_slope(z))
        out = layer(self.depth - 1, inputs[-1])
        target = values - keys if self.residual else values
        if self.norm:
            out, gain = normalised(out)
            error = norm_backward(out, gain, out - target)
        else:
            error, gain = out - target, xp.ones_like(rates)[..., None] if self.depth > 1 else None
        errors, gains = [error], [gain]
        for i in range(self.depth - 1, 0, -1):
            matrix, slope = weights[self.name("W", i)], slopes[i - 1]
            error = (error @ matrix) * slope
            gain = gain * xp.sqrt(_squared_norm_bound(matrix))[..., None, None] * _largest(slope)
            errors.insert(0, error)
            gains.insert(0, gain)
        return Factors(tuple(inputs), tuple(errors), rates, None if gain is None else xp.concat(gains, axis=-1))

    def moved(self, weights: Mapping[str, Array], factors: Factors, share: Array) -> dict[str, Array]:
        """Return the weights W_l - share sum_s rate_s error_s input_s^T and b_l - share sum_s rate_s error_s.

        share: (*batch, 1) or one that broadcasts to it.
        """
        xp = ar.namespace(share)
        shares = share * factors.rates
        moved = {}
        for i in range(self.depth):
            step = factors.errors[i] * shares[..., None]
            name = self.name("W", i)
            moved[name] = weights[name] - ar.transpose(step) @ factors.inputs[i]
            if self.bias:
                name = self.name("b", i)
                moved[name] = weights[name] - xp.sum(step, axis=-2)
        return moved

    # ------------------------------------------------------------------ curvature

    def couplings(self, factors: Factors) -> Array:
        """Return an upper bound (*batch, n, n) of how strongly a unit step on pair s moves the output for pair r.

        In a linear model it is |k_r.k_s| (plus 1 with a bias). In general it bounds the blocks of the Gauss-Newton
        matrix at the weights that the gradients were taken at: |a_r.a_s + bias| gain_r gain_s, summed over layers.
        """
        xp = ar.namespace(factors.rates)
        total: Array | float = 0.0
        for i, inputs in enumerate(factors.inputs):
            part = xp.abs(inputs @ ar.transpose(inputs) + (1 if self.bias else 0))
            if factors.gains is not None:
                gain = factors.gains[..., i : i + 1]
                part = part * gain * ar.transpose(gain)
            total = total + part
        return total

    def bilinear_bound(self, factors: Factors) -> Array:
        """Return the step (*batch, n) after each pair at which two layers moving together could add the largest error.

        The Gauss-Newton curvature sees each layer's move alone. The product of the last layer's move and of what the
        layer below adds to its inputs is at most step^2 |D_2| slope |D_1| |input|, D_l = sum_s rate_s error_s
        input_s^T in the Frobenius norm. It grows with the step's square: for short keys it limits the step.
        """
        xp = ar.namespace(factors.rates)
        below, last = self.depth - 2, self.depth - 1
        divisor = xp.ones_like(factors.rates)
        for i in (below, last):
            errors, inputs = factors.errors[i] * factors.rates[..., None], factors.inputs[i]
            # Inputs are brought to lengths near 1 first: squares of short ones would underflow.
            longest = _root(xp.max(xp.sum(inputs * inputs, axis=-1), axis=-1) + (1 if self.bias else 0))[..., None]
            inputs = inputs / xp.where(longest > 0, longest, xp.ones_like(longest))[..., None]
            extra = (1 if self.bias else 0) / xp.where(longest > 0, longest, xp.ones_like(longest))[..., None] ** 2
            product = (errors @ ar.transpose(errors)) * (inputs @ ar.transpose(inputs) + extra)
            upto = xp.tril(xp.ones_like(product))
            moved = longest * _root(xp.sum((upto @ product) * upto, axis=-1))
            divisor = divisor * _root(moved * _STEEPEST * longest if i == below else moved)
        worst = _root(xp.sum(factors.errors[last] * factors.errors[last], axis=-1))
        bound = _root(_running_largest(worst)) / xp.where(divisor > 0, divisor, xp.ones_like(divisor))
        return xp.where(divisor > 0, bound, xp.full_like(bound, float("inf")))


def gelu(z: Array) -> Array:
    """Return z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))."""
    xp = ar.namespace(z)
    return 0.5 * z * (1 + xp.tanh(_SQRT_2_PI * (z + 0.044715 * z * z * z)))


def gelu_slope(z: Array) -> Array:
    """Return the derivative of `gelu`."""
    bent = ar.namespace(z).tanh(_SQRT_2_PI * (z + 0.044715 * z * z * z))
    return 0.5 * (1 + bent) + 0.5 * z * (1 - bent * bent) * _SQRT_2_PI * (1 + 3 * 0.044715 * z * z)


def normalised(z: Array) -> tuple[Array, Array]:
    """Return LayerNorm over the last axis, (z - mean)/std with std^2 = variance + NORM_EPSILON, and 1/std (..., 1)."""
    xp = ar.namespace(z)
    if z.shape[-1] == 0:
        return z, xp.ones((*z.shape[:-1], 1), dtype=z.dtype, device=ar.device_of(z))
    centred = z - xp.mean(z, axis=-1, keepdims=True)
    gains = 1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + NORM_EPSILON)
    return centred * gains, gains


def norm_backward(out: Array, gains: Array, error: Array) -> Array:
    """Return the gradient before LayerNorm of a loss whose gradient behind it is `error`.

    With y the output and g = 1/std: g (e - mean(e) - y mean(e y)); the factor g covers all three terms.
    """
    xp = ar.namespace(out)
    if out.shape[-1] == 0:
        return error
    along = xp.mean(error * out, axis=-1, keepdims=True)
    return gains * (error - xp.mean(error, axis=-1, keepdims=True) - out * along)


def _largest(x: Array) -> Array:
    """Return the largest absolute entry of each row, (..., 1); 0 for rows without entries."""
    xp = ar.namespace(x)
    if x.shape[-1] == 0:
        return xp.zeros((*x.shape[:-1], 1), dtype=x.dtype, device=ar.device_of(x))
    return xp.max(xp.abs(x), axis=-1, keepdims=True)


def _root(x: Array) -> Array:
    """Return the square root of x, 0 where x <= 0 (with the derivative 0 there)."""
    xp = ar.namespace(x)
    some = x > 0
    return xp.where(some, xp.sqrt(xp.where(some, x, xp.ones_like(x))), xp.zeros_like(x))


def _running_largest(x: Array) -> Array:
    """Return the largest of the first t entries of x (..., n) >= 0, for t = 1..n."""
    xp = ar.namespace(x)
    n = int(x.shape[-1])
    upto = xp.tril(xp.ones((n, n), dtype=x.dtype, device=ar.device_of(x)))
    return xp.max(x[..., None, :] * upto, axis=-1)


def _squared_norm_bound(matrix: Array) -> Array:
    """Return an upper bound (*batch) of the squared spectral norm: the largest row sum of the smaller Gram matrix."""
    xp = ar.namespace(matrix)
    rows, columns = int(matrix.shape[-2]), int(matrix.shape[-1])
    if rows > columns:
        matrix = ar.transpose(matrix)
    if min(rows, columns) == 0:
        return xp.zeros(matrix.shape[:-2], dtype=matrix.dtype, device=ar.device_of(matrix))
    return xp.max(xp.sum(xp.abs(matrix @ ar.transpose(matrix)), axis=-1), axis=-1)
