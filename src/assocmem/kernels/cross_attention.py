"""RETRO's chunked cross-attention: tokens attend to what was retrieved for the chunk that came to its end before them.

Borgeaud et al. 2022, arXiv:2112.04426, section 2.4.
"""

from __future__ import annotations

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_whole
from assocmem.kernels.attention import Beta, attend


def chunked_cross_attention(queries: Array, keys: Array, values: Array, chunk: int, beta: Beta) -> Array:
    """Return softmax attention of every token to the neighbours of the last chunk that is complete with that token.

    The last token of chunk u and all but the last of chunk u + 1 attend to the neighbours of chunk u, which are found
    by that chunk's own tokens: no token sees what was retrieved with later ones. The first `chunk` - 1 tokens, and all
    where there are no neighbours, get zeros, which leave a residual stream as it is.

    Parameters
    ----------
    queries : array (..., n, d_k)
        One for each token.
    keys : array (..., u, k, r, d_k)
        Of the r tokens (chunk and continuation) of the k neighbours of each of u = n // chunk chunks; k may be 0.
    values : array (..., u, k, r, d_v)
        Likewise.
    chunk : int
        Tokens in a chunk, >= 1; 64 in the paper.
    beta : float
        Sharpness >= 0.

    Returns
    -------
    array (..., n, d_v)
        To be added to the tokens' hidden states.

    Raises
    ------
    InputError
        For a chunk or shapes that do not fit.

    Notes
    -----
    Cost: n k r (d_k + d_v) multiply-adds. The learned positions of the paper's attention are part of what is given.

    Examples
    --------
    >>> import numpy as np
    >>> neighbours = np.ones((2, 1, 1, 1))
    >>> out = chunked_cross_attention(np.ones((5, 1)), neighbours, neighbours * [[[[3.0]]], [[[7.0]]]], 2, 1.0)
    >>> out[:, 0].tolist()
    [0.0, 3.0, 3.0, 7.0, 7.0]
    """
    if not is_whole(chunk):
        raise InputError(f"`chunk` of chunked_cross_attention must be a whole number >= 1; got {chunk!r}.")
    n, d_k = (int(w) for w in queries.shape[-2:])
    chunks, lead = n // chunk, tuple(queries.shape[:-2])
    wanted = (*lead, chunks)
    sets = tuple(keys.shape[:-1])
    if sets[:-2] != wanted or int(keys.shape[-1]) != d_k:
        raise InputError(
            f"`keys` of chunked_cross_attention must have shape {(*wanted, 'k', 'r', d_k)}, a set of neighbours for "
            f"each of the {chunks} chunks; got {tuple(keys.shape)}."
        )
    if tuple(values.shape[:-1]) != sets:
        raise InputError(
            f"`values` of chunked_cross_attention must have shape {(*sets, 'd_v')}, as the keys; "
            f"got {tuple(values.shape)}."
        )
    xp, d_v = ar.namespace(queries), int(values.shape[-1])
    each = int(keys.shape[-3]) * int(keys.shape[-2])
    blank = xp.zeros((*lead, min(chunk - 1, n), d_v), dtype=values.dtype, device=ar.device_of(values))
    if not chunks:
        return blank
    late = n - (chunk - 1)
    padding = xp.zeros((*lead, chunks * chunk - late, d_k), dtype=queries.dtype, device=ar.device_of(queries))
    asked = xp.reshape(xp.concat([queries[..., chunk - 1 :, :], padding], axis=-2), (*wanted, chunk, d_k))
    flat = [xp.reshape(a, (*wanted, each, int(a.shape[-1]))) for a in (keys, values)]
    found = xp.reshape(attend(flat[0], flat[1], asked, beta).values, (*lead, chunks * chunk, d_v))
    return xp.concat([xp.astype(blank, found.dtype), found[..., :late, :]], axis=-2)
