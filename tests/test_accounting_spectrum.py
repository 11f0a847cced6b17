"""Noise between DPSGD's and SI-DPSGD's: matrices against coefficients, sensitivity against brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from lib.accounting import Spectrum

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
T = 8


def matrix(column: np.ndarray) -> np.ndarray:
    return toeplitz(column, np.zeros(len(column)))


@pytest.mark.parametrize("power", POWERS)
def test_it_is_the_power_of_the_matrix_of_ones(power):
    """A^p A^(1−p) = A, and A^(p/2) twice is A^p."""
    power_of = {p: matrix(Spectrum(power=p, steps=T).strategy) for p in (power, 1 - power, power / 2)}
    assert power_of[power] @ power_of[1 - power] == pytest.approx(np.tril(np.ones((T, T))))
    assert power_of[power / 2] @ power_of[power / 2] == pytest.approx(power_of[power])


@pytest.mark.parametrize("banded", ["noise", "strategy"])
@pytest.mark.parametrize("bands", [0, 1, 3])
@pytest.mark.parametrize("power", POWERS)
def test_the_noise_is_the_inverse_and_nothing_in_the_strategy_is_negative(power, bands, banded):
    spectrum = Spectrum(power=power, steps=T, bands=bands, banded=banded)
    assert matrix(spectrum.strategy) @ matrix(spectrum.noise) == pytest.approx(np.eye(T), abs=1e-12)
    assert np.all(spectrum.strategy >= -1e-15)
    if bands:
        assert np.count_nonzero(getattr(spectrum, banded)) <= bands
    if bands == 1:
        assert spectrum.strategy.tolist() == np.eye(1, T)[0].tolist()


@pytest.mark.parametrize("banded", ["noise", "strategy"])
@pytest.mark.parametrize("bands", [0, 3])
@pytest.mark.parametrize("period", [2, 3, 4, 8])
@pytest.mark.parametrize("power", POWERS)
def test_the_sensitivity_is_the_largest_over_all_patterns_and_signs(power, period, bands, banded):
    """Every pattern of one place in each period, and gradients that point one way or the other."""
    spectrum = Spectrum(power=power, steps=T, bands=bands, banded=banded)
    strategy, largest = matrix(spectrum.strategy), 0.0
    for start in range(period):
        pattern = list(range(start, T, period))
        for signs in itertools.product((-1, 1), repeat=len(pattern)):
            largest = max(largest, np.linalg.norm(strategy[:, pattern] @ np.array(signs)))
    assert spectrum.sensitivity(period=period) == pytest.approx(largest)


def test_the_ends_are_dpsgd_and_si_dpsgd():
    for epochs in (1, 3):
        assert Spectrum(power=0.0, steps=60).sensitivity(period=60 // epochs) == pytest.approx(math.sqrt(epochs))
        participations = 1 + np.arange(60) // (60 // epochs)
        expected = math.sqrt(np.sum(participations**2.0))
        assert Spectrum(power=1.0, steps=60).sensitivity(period=60 // epochs) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"power": 1.5}, r"power: expected a number in \[0, 1\]; got 1.5"),
        ({"steps": 0}, "steps: expected at least 1; got 0"),
        ({"bands": -1}, "bands: expected at least 0; got -1"),
        ({"banded": "both"}, "banded: expected one of noise, strategy; got 'both'"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Spectrum(**({"power": 0.5, "steps": 10} | changes))
    with pytest.raises(ValueError, match="period: expected at least 1; got 0"):
        Spectrum(power=0.5, steps=10).sensitivity(period=0)
