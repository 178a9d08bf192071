"""How often a property is tried: kernels without Numba are some hundred times as slow, so there they are tried less."""

import numba


def tries(most: int) -> int:
    """Examples for hypothesis: ``most`` of them, and without Numba a fifth, but at least two."""
    return max(2, most // 5) if numba.config.DISABLE_JIT else most
