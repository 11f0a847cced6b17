"""Strong composition as abadi uses it for comparison: what the moments accountant improves on.

    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10_000, accountant="strong_composition"), 2)
    9.34

As abadi section 3.1 describes it: each step is (ε₀, δ₀)-DP for its batch with ε₀ = √(2 ln(1.25/δ₀))/z, hence
(qε₀, qδ₀)-DP for the data, and T of them are (ε, δ)-DP with

    ε = qε₀ √(2T ln(1/δ′)) + T (qε₀)²,    δ = Tqδ₀ + δ′,

minimised over how δ is split, δ₀ ≤ 1.  The last term is what reproduces the printed 9.34.  With qε₀(e^{qε₀} − 1) in
place of (qε₀)², the form of Dwork, Rothblum and Vadhan 2010, the same setting gives 9.35.

Not an upper bound: sampling amplifies to ln(1 + q(e^ε₀ − 1)), and qε₀ is smaller than that.  With the exact
amplification the setting above gives 26.2.
"""

import math

from scipy.optimize import minimize_scalar

from lib.accounting._event import Events

MATCHES = {("poisson", "add_or_remove_one")}
UPPER_BOUND = False


def epsilon(events: Events, delta: float) -> float:
    sampled = sum(event.steps * event.sampling_prob for event in events)  # Tq

    def composed(share: float) -> float:  # the share of δ that goes to the steps' own δ₀
        unit = math.sqrt(2 * math.log(1.25 / min(share * delta / sampled, 1.0)))  # ε₀ z
        squares = sum(e.steps * (e.sampling_prob * unit / e.noise_multiplier) ** 2 for e in events)
        return math.sqrt(2 * squares * math.log(1 / ((1 - share) * delta))) + squares

    return float(minimize_scalar(composed, bounds=(1e-6, 1 - 1e-6), method="bounded").fun)
