"""Strong composition as abadi uses it for comparison: what the moments accountant improves on.

    >>> from lib.accounting import epsilon
    >>> round(epsilon(noise_multiplier=4.0, sampling_prob=0.01, steps=10_000, accountant="strong_composition"), 2)
    9.34

As abadi section 3.1 describes it: each step is (ε₀, δ₀)-DP for its batch with ε₀ = √(2 ln(1.25/δ₀))/z, hence
(qε₀, qδ₀)-DP for the data, and T of them are (ε, δ)-DP with

    ε = qε₀ √(2T ln(1/δ′)) + T (qε₀)²,    δ = Tqδ₀ + δ′,

minimised over how δ is split.  The last term is what reproduces the printed 9.34.  With qε₀(e^{qε₀} − 1) in place of
(qε₀)², the form of Dwork, Rothblum and Vadhan 2010, the same setting gives 9.35.

Not an upper bound: sampling amplifies to ln(1 + q(e^ε₀ − 1)), and qε₀ is smaller than that.  With the exact
amplification the setting above gives 26.2.
"""

import math

from scipy.optimize import minimize_scalar

from lib.accounting._event import Event

MATCHES = {("poisson", "add_or_remove_one")}
UPPER_BOUND = False


def epsilon(event: Event, delta: float) -> float:
    z, q, steps = event.noise_multiplier, event.sampling_prob, event.steps

    def composed(share: float) -> float:  # the share of δ that goes to the steps' own δ₀
        step = q * math.sqrt(2 * math.log(1.25 * steps * q / (share * delta))) / z
        return step * math.sqrt(2 * steps * math.log(1 / ((1 - share) * delta))) + steps * step**2

    return float(minimize_scalar(composed, bounds=(1e-6, 1 - 1e-6), method="bounded").fun)
