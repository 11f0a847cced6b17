"""Rényi DP as TensorFlow Privacy counted in January 2020, when v1's table headings were computed.

    >>> from lib.accounting import epsilon
    >>> v1_mnist = {"noise_multiplier": 7.1, "sampling_prob": 32 / 60_000, "steps": 18_750}
    >>> round(epsilon(**v1_mnist, accountant="rdp_2020"), 4), round(epsilon(**v1_mnist, accountant="rdp"), 4)
    (0.05, 0.0332)

The moments are those of ``rdp``; the conversion is Mironov's first one, ε = min over α of
T·rdp(α) + ln(1/δ)/(α − 1), over that library's orders.  Few of them lie above 63, which matters: with every integer
up to 512 the same setting gives 0.0498.  ε never falls below ln(1/δ)/511: 0.0225 at δ = 1e-5.
Source: Mironov 2017 (1702.07476), proposition 3; tensorflow_privacy, compute_dp_sgd_privacy.
"""

import math

import numpy as np

from lib.accounting import rdp
from lib.accounting._event import Events

MATCHES = {("poisson", "add_or_remove_one")}
UPPER_BOUND = True
ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512)  # α


def epsilon(events: Events, delta: float) -> float:
    orders, divergences = rdp.composed(events, ORDERS)
    return float(np.min(divergences + math.log(1 / delta) / (orders - 1)))


def delta(events: Events, epsilon: float) -> float:
    orders, divergences = rdp.composed(events, ORDERS)
    return math.exp(min(0.0, float(np.min((orders - 1) * (divergences - epsilon)))))
