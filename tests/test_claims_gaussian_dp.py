"""bc's claims about what its clipping costs in privacy, by accountants and by measured sensitivities."""

import math

import pytest

from lib.claims import gaussian_dp

BY_NAME = {claim.name: claim for claim in gaussian_dp.CLAIMS}
SAME = "Batch clipping has the guarantee of individual clipping"


def test_the_quoted_limit_bounds_the_proven_epsilon_at_usual_delta_and_not_in_the_tail():
    """SOUNDNESS, δ = 1e-5: in the limit 2.09 and 9.94 for 8 layers, 5.23 for 16; 1.565 of one pair, 2.083 by PLD."""
    one, other = (claim.judge("cpu", None) for name, claim in BY_NAME.items() if name.endswith("at usual δ"))
    assert (one.status, other.status) == ("holds", "open")
    assert "at most 3.05 by PLD (a bound to within 0.5 %)" in one.evidence
    eight = "8 modules as layers, δ = 1e-05: ε"
    assert f"{eight} = 2.09 in the limit, at least 1.56 and at most 2.09 by PLD" in one.decisive
    assert "ε = 5.23 in the limit, at least 4.12 and at most 5.26 by PLD" in one.evidence
    assert any(
        "at ε = 6 δ is 6.1e-31 of one pair of data sets at least, and 5.1e-31 of G_0.52" in t for t in one.contrary
    )
    assert f"{eight} = 9.94 in the limit, at least 7.91 and at most 9.7 by PLD" in other.evidence
    assert (
        "8 modules as layers, δ = 1e-07: ε = 11.8 in the limit, at least 10.3 and at most 12.2 by PLD" in other.decisive
    )
    assert "ε = 13.5 in the limit, at least 12.6 and at most 14.6 by PLD" in other.evidence
    assert "at ε = 34 δ is 6.3e-59 of one pair of data sets at least, and 1.9e-59 of G_1.99" in other.evidence


def test_a_limit_fails_at_usual_delta_where_one_pair_exceeds_it(monkeypatch):
    """After so few steps the limit is far too small."""
    monkeypatch.setattr(gaussian_dp, "_trained", lambda times=1: {"sampling_prob": 0.001, "steps": 100})
    verdict = BY_NAME["Gaussian DP with µ = 0.52 at σ = 2.5, at usual δ"].judge("cpu", None)
    assert verdict.status == "fails"
    assert verdict.contrary == ()


def test_of_more_data_the_limit_is_exceeded_by_one_pair():
    """An example that turns its batch's mean around, by an accountant of its own: µ of one batch of k given ones."""
    verdict = BY_NAME["Gaussian DP with µ = 0.51 of a data set 15 times as large"].judge("cpu", None)
    assert "1e-09" not in verdict.decisive  # which rounding moves by a digit from one processor to another
    assert verdict.status == "fails"
    assert (
        "810,000 examples, δ = 1e-07: ε = 2.57 in the limit, at least 3.33 and at most 3.59 by PLD" in verdict.decisive
    )
    assert "δ = 0.001: ε = 1.4 in the limit, at least 1.02 and at most 1.41 by PLD" in verdict.evidence


def test_the_price_of_layers_is_that_of_bc_s_function():
    """h(σ) = √(e^(1/σ²) Φ(3/(2σ)) + 3 Φ(−1/(2σ)) − 2) of bc B.1, by its own formula."""

    def h(sigma):
        phi = lambda t: math.erfc(-t / math.sqrt(2)) / 2  # noqa: E731
        return math.sqrt(math.exp(sigma**-2) * phi(1.5 / sigma) + 3 * phi(-0.5 / sigma) - 2)

    verdict = BY_NAME["At bc's own σ, too, layerwise clipping costs a factor of √L in µ"].judge("cpu", None)
    assert verdict.status == "fails"
    for sigma, part in zip((2.5, 1.5, 25.0), verdict.parts, strict=True):
        assert f"{h(sigma / math.sqrt(8)) / h(sigma):.2f} times that of one" in part
    assert verdict.contrary == (verdict.parts[2],)


@pytest.mark.parametrize(("batch", "status"), [(1.8, "holds"), (2.0, "holds"), (2.1, "fails")])
def test_the_same_guarantee_is_one_of_sensitivities(batch, status, monkeypatch):
    found = {
        "batch_clipping": {"BC": {"multiple": batch}, "BC without BN": {"multiple": 2.0}},
        "sensitivity": {"LeNet-5": {"0.1": {"multiple": 1.5}, "3": {"multiple": 1.6}}},
    }
    monkeypatch.setattr(gaussian_dp.stored, "audit", found.__getitem__)
    verdict = BY_NAME[SAME].judge("cpu", None)
    assert verdict.status == status
    assert f"the clipped mean by {batch:.2f} C, and the sum of clipped gradients by 1.60 C" in verdict.evidence
    assert "so at σ = 2.5 and δ = 1e-5 ε = 0.348 and 0.158" in verdict.evidence


@pytest.mark.parametrize(("multiple", "status"), [(2.0, "fails"), (1.01, "fails"), (0.9, "holds")])
def test_without_the_factor_an_example_left_out_may_move_what_is_clipped_by_c(multiple, status, monkeypatch):
    name = "Poisson sampling takes the factor 2 away"
    assert BY_NAME[name].judge("cpu", None).status == "fails"
    found = {"BC without BN": {"multiple": multiple, "how": "example 0 removed"}}
    monkeypatch.setattr(gaussian_dp.stored, "audit", lambda name: found)
    verdict = BY_NAME[name].judge("cpu", None)
    assert verdict.status == status
    assert f"moves the clipped mean by {multiple:.2f} C (example 0 removed)" in verdict.evidence
    assert "ε = 0.332 where one example is replaced" in verdict.evidence
