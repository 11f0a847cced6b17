"""The moments of one step, by numerical integration and by abadi's leading term."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from lib.accounting import moments


@pytest.mark.parametrize("order", [1, 8, 32])
def test_log_moments_are_the_integrals(order):
    z, q = 2.0, 0.05

    def ratio(x):
        return np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * z**2))

    def moment(power):
        peak = max(0.0, power)
        return quad(lambda x: math.exp(norm.logpdf(x, 0, z) + power * ratio(x)), peak - 40, peak + 40, limit=500)[0]

    expected = math.log(max(moment(-order), moment(order + 1)))
    assert moments.log_moments(z, q)[order - 1] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_leading_term_of_abadi_s_bound():
    """By hand at λ = 1 and 2; with much noise twice the truth, which tends to (q/z)² λ(λ + 1)/2; with little, less."""
    assert moments.leading_log_moments(2.0, 0.5)[:2] == pytest.approx([0.25, 0.75])
    assert moments.leading_log_moments(100.0, 1e-4) == pytest.approx(2 * moments.log_moments(100.0, 1e-4), rel=1e-2)
    assert (moments.leading_log_moments(0.5, 0.01) < moments.log_moments(0.5, 0.01) / 6).all()
