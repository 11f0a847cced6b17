"""The sensitivity meter flags what clipping does not bound, and nothing else."""

import copy
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from conftest import make_run
from torch import Tensor, nn

from lib import audit, data
from lib.audit import batch_clipping, normalisation
from lib.generators import generator
from lib.grads import Groups, clipped_mean, clipped_sum
from lib.grads.trials import trial
from lib.layers import NoisyLinear, WithPublic
from lib.models import norm_layer
from lib.train import Training

LOSS = partial(F.cross_entropy, reduction="none")
C, BATCH, PUBLIC, K = 0.7, 12, 6, 3
ROUNDING = 1e-5
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 10))]  # of two networks each


def dense(norm: str, activation: type[nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Linear(7, 8), *norm_layer(norm, 8), activation(), nn.Linear(8, 6), *norm_layer(norm, 6), nn.Linear(6, K)
    )


def convolutional(norm: str, activation: type[nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 7)),
        nn.Unflatten(2, (1, 7)),
        nn.Conv2d(1, 4, (1, 3)),
        *norm_layer(norm, 4, 1, 5),
        activation(),
        nn.Conv2d(4, 4, (1, 3)),
        *norm_layer(norm, 4, 1, 3),
        activation(),
        nn.Flatten(),
        nn.Linear(12, K),
    )


NETWORKS = {"dense": dense, "convolutional": convolutional}


def made(network: str, norm: str, seed: int, **public) -> tuple[nn.Module, Tensor, Tensor]:
    """A model and a batch, all from ``seed``; ``public``: settings of WithPublic."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = NETWORKS[network](norm, nn.ReLU if seed % 2 else nn.Tanh)
    draws = generator(seed, "audit")
    if public:
        model = WithPublic(model, torch.randn(PUBLIC, 7, generator=draws), **public)
    return model.train(), torch.randn(BATCH, 7, generator=draws), torch.arange(BATCH) % K


def summed(implementation: str = "fast") -> audit.meter.Summed:
    return lambda model, x, y: clipped_sum(model, LOSS, x, y, clip_norm=C, implementation=implementation)[0]


def batch_clipped(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    groups = Groups(model, C)
    return groups.parts(clipped_mean(model, LOSS, x, y, groups))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("norm", ["none", "layer_without_affine", "layer", "group_without_affine"])
def test_silent_where_examples_do_not_meet(norm, network, seed):
    found = audit.sensitivity(summed(), *made(network, norm, seed), clip_norm=C)
    assert 1 < found.multiple <= 2 + ROUNDING  # the search is not idle: it gets close to what is allowed
    assert not found.buffers


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("statistics", ["per_example", "public"])
def test_silent_for_statistics_that_are_an_examples_own_or_public(statistics, gradient, network, seed):
    model = made(network, "public_batch", seed, statistics=statistics, gradient=gradient)
    found = audit.sensitivity(summed(), *model, clip_norm=C)
    assert 1 < found.multiple <= 2 + ROUNDING
    assert not found.buffers


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("gradient", [False, True])
def test_flags_statistics_of_private_and_public_examples(gradient, network, seed):
    """v2 algorithm 1: one example moves the sum by far more than 2C."""
    model = made(network, "public_batch", seed, statistics="mixed", gradient=gradient)
    assert audit.sensitivity(summed("joint"), *model, clip_norm=C).multiple > 2.5


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_removing_an_example_moves_at_most_c(norm):
    model = made("dense", norm, 0)
    found = audit.sensitivity(summed(), *model, clip_norm=C, neighbouring_relation="add_or_remove_one", examples=BATCH)
    assert 0.5 < found.multiple <= 1 + ROUNDING
    assert found.how.endswith("removed")


def test_removing_an_example_is_found_out_too():
    model = made("dense", "public_batch", 0, statistics="mixed", gradient=True)
    how = {"clip_norm": C, "neighbouring_relation": "add_or_remove_one", "examples": BATCH}
    assert audit.sensitivity(summed("joint"), *model, **how).multiple > 1.1


def test_flags_running_averages_though_the_clipped_mean_is_bounded():
    """Batch clipping's 2C holds with batch norm inside; what its running averages release is not in it."""
    found = audit.sensitivity(batch_clipped, *made("dense", "batch", 0), clip_norm=C)
    assert found.multiple <= 2 + ROUNDING
    assert {"1.running_mean", "4.running_var"} <= set(found.buffers)


class FirstShortcut(nn.Module):
    """The slip in v1's code: sample 0's shortcut is added to every sample; or that of another."""

    def __init__(self, of: int = 0) -> None:
        super().__init__()
        self.shortcut, self.last, self.of = nn.Linear(7, 5), nn.Linear(5, K), of

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(x[:, :5] + self.shortcut(x)[self.of]))


def test_flags_a_shortcut_of_the_first_sample():
    _, x, y = made("dense", "none", 0)
    torch.manual_seed(0)
    found = audit.sensitivity(summed("joint"), FirstShortcut(), x, y, clip_norm=C, examples=BATCH, ascent=2)
    assert found.multiple > 2.5


@pytest.mark.parametrize("of", [0, -1])
@pytest.mark.parametrize("seed", range(5))
def test_flags_it_without_being_told_where_to_look(seed, of):
    """At either end of a batch."""
    _, x, y = made("dense", "none", 0)
    torch.manual_seed(0)
    assert audit.sensitivity(summed("joint"), FirstShortcut(of), x, y, clip_norm=C, seed=seed).multiple > 2.5


def test_a_buffer_that_is_no_number_and_stays_so_has_not_moved():
    model, x, y = made("dense", "none", 0)
    model.register_buffer("threshold", torch.tensor(math.nan))
    assert audit.sensitivity(summed(), model, x, y, clip_norm=C, examples=1, ascent=1).buffers == ()


def test_a_model_is_looked_at_once_for_all_neighbours(monkeypatch):
    tried = []
    for place in ("uses", "mixing"):
        monkeypatch.setattr(f"lib.grads.{place}.trial", lambda *of, **how: tried.append(of) or trial(*of, **how))
    model, x, y = made("dense", "none", 0)
    clipped_sum(copy.deepcopy(model), LOSS, x, y, clip_norm=C)
    once, found = len(tried), audit.sensitivity(summed(), model, x, y, clip_norm=C)
    assert 2 * once <= len(tried) < 8 * once  # and a little at later passes, of which there are 89
    assert found.multiple > 1


def test_leaves_the_model_as_it_was():
    model, x, y = made("dense", "batch", 0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    audit.sensitivity(batch_clipped, model, x, y, clip_norm=C, examples=1, ascent=1)
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert all(p.grad is None for p in model.parameters())


def draws(kind: str) -> nn.Module:
    if kind == "dropout":
        return nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, K))
    generator = torch.Generator().manual_seed(3) if kind == "noise of its own generator" else None
    return nn.Sequential(NoisyLinear(7, K, noise_std=1.0, generator=generator))


@pytest.mark.parametrize("kind", ["dropout", "noise", "noise of its own generator"])
def test_what_a_model_draws_is_the_same_for_both_neighbours(kind):
    _, x, y = made("dense", "none", 0)
    model, state = draws(kind), torch.random.get_rng_state()
    assert audit.sensitivity(summed(), model, x, y, clip_norm=C, examples=4, ascent=5).multiple <= 2 + ROUNDING
    with pytest.raises(ValueError, match="expected replace_one for a model that draws; got add_or_remove_one"):
        audit.sensitivity(summed(), model, x, y, clip_norm=C, neighbouring_relation="add_or_remove_one")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_every_normalisation_of_lenet5_is_measured(monkeypatch):
    """On a few digits, with hardly any search: v2's batch norm is told from the others."""
    monkeypatch.setattr(data, "load", lambda name, load=data.load: load("digits"))
    monkeypatch.setattr(normalisation, "PRIVATE", 8)
    fewer = {name: of._replace(public=2 + (of.public > 30)) for name, of in normalisation.NETWORKS.items()}
    monkeypatch.setattr(normalisation, "NETWORKS", fewer)
    monkeypatch.setattr(normalisation, "CLIP_NORMS", (0.5,))
    monkeypatch.setattr(normalisation, "SEARCH", {"examples": 1, "classes": 1, "ascent": 0})
    found = normalisation.measure()
    assert list(found) == list(normalisation.NETWORKS)
    multiples = {name: by_clip_norm["0.5"]["multiple"] for name, by_clip_norm in found.items()}
    mixed = {"BN-LeNet-5, as printed", "BN-LeNet-5, as printed, M = 30"}
    assert {name for name, multiple in multiples.items() if multiple > 2 + ROUNDING} == mixed
    assert len({multiples[name] for name in mixed}) == 2  # each saw its own number of public images


def test_a_network_has_the_statistics_that_its_name_says():
    images, seen = torch.rand(128, 1, 28, 28), {}
    for name in normalisation.NETWORKS:
        model = normalisation.network(name, images)
        assert model.training
        if isinstance(model, WithPublic):
            seen[name] = model.statistics, model.gradient, len(model.public)
    assert seen == {
        "BN-LeNet-5, each example with public": ("per_example", True, 30),
        "BN-LeNet-5, public alone": ("public", True, 30),
        "BN-LeNet-5, public alone, as constants": ("public", False, 30),
        "BN-LeNet-5, as printed, M = 30": ("mixed", True, 30),
        "BN-LeNet-5, as printed": ("mixed", True, 128),
    }


def test_at_each_clip_norm_a_network_is_clipped_to_it_and_sees_images_of_other_data(monkeypatch):
    loaded, clipped = [], []
    monkeypatch.setattr(data, "load", lambda name, load=data.load: loaded.append(name) or load("digits"))
    monkeypatch.setattr(normalisation, "NETWORKS", {"LeNet-5": normalisation.Network("none")})
    monkeypatch.setattr(normalisation, "clipped_sum", lambda *_, clip_norm, **how: clipped.append(clip_norm) or [{}])

    def asked(summed, model, x, y, *, clip_norm, **search):
        summed(model, x, y)
        assert clipped.pop() == clip_norm
        return audit.meter.Measured(clip_norm, "", ())

    monkeypatch.setattr(normalisation, "sensitivity", asked)
    found = normalisation.measure()["LeNet-5"]
    assert {name: of["multiple"] for name, of in found.items()} == {"0.1": 0.1, "0.5": 0.5, "3": 3.0, "30": 30.0}
    assert loaded == ["mnist", "kmnist"]


def test_an_unknown_relation_is_refused():
    with pytest.raises(ValueError, match="expected one of replace_one, add_or_remove_one; got 'zero_out'"):
        audit.sensitivity(summed(), *made("dense", "none", 0), clip_norm=C, neighbouring_relation="zero_out")


NETWORK = {"model": "lenet_300_100", "norm": "none", "optimizer": "sgd"}
BATCHES = {"batch_size": 64, "mini_set_size": 64, "sampler": "shuffled", "accountant": "gdp", "epsilon": 2.0}
BATCHES |= {"neighbouring_relation": "replace_one", "public_examples": 100, "clip_norm": 0.1}
LAYERWISE = {"method": "adaptive_layerwise", "gradient_norm_examples": 20, "layers": "modules"}


def moved_by_one_example(changes: dict, short: float = 1.0) -> tuple[float, int]:
    """In units of the noise at z = 1, which is ``short`` of what it should be; and the number of layers."""
    training = Training(make_run(**(NETWORK | BATCHES | changes)), torch.device("cpu"))
    training.attach()
    model, method = training.model, training.method
    method.prepare(model, training.data[1])
    layers = len(method.groups(model, 0).names)
    x, y = training.examples(torch.arange(2))
    with pytest.MonkeyPatch.context() as patch:
        reach = Groups.reach
        patch.setattr(Groups, "reach", lambda groups, name: short * reach(groups, name))
        search = batch_clipping.SEARCH | {"ascent": 5, "classes": 4}
        return audit.sensitivity(batch_clipping.in_units_of_noise(method), model, x, y, **search).multiple, layers


def test_in_units_of_its_noise_a_clip_moves_by_2_and_one_of_every_layer_by_more():
    whole, one = moved_by_one_example({"method": "batch_clipping"})
    factors, scaled = moved_by_one_example(LAYERWISE | {"adaptive_clipping": "multiplication_factors"})
    layerwise, layers = moved_by_one_example(LAYERWISE)
    assert (one, scaled, layers) == (1, 1, 3)
    assert 1 < whole <= 2 + ROUNDING
    assert 1 < factors <= 2 + ROUNDING
    assert 2 + ROUNDING < layerwise <= 2 * layers**0.5 + ROUNDING


def test_too_little_noise_is_found_out():
    factors = LAYERWISE | {"adaptive_clipping": "multiplication_factors"}
    assert moved_by_one_example(factors, short=0.5)[0] > 2 + ROUNDING


def test_an_example_that_is_left_out_turns_the_clipped_mean_around(monkeypatch):
    """Which Poisson sampling may do; the sum of what is clipped by itself it moves by C at most."""
    run = make_run(**(NETWORK | BATCHES | {"method": "batch_clipping"}))
    monkeypatch.setattr(batch_clipping.tables, "load", lambda name: SimpleNamespace(cell=lambda *_, **how: run))
    found = batch_clipping.left_out()
    assert 1.5 < found["multiple"] <= 2 + ROUNDING
    assert "removed, of an image and" in found["how"]


class TestWhatTheMeterIsGiven:
    def test_a_sum_that_is_not_finite_is_infinitely_far(self):
        model, x, y = made("dense", "none", 0)
        broken = lambda model, x, y: {n: v * math.nan for n, v in summed()(model, x, y).items()}  # noqa: E731
        assert audit.sensitivity(broken, model, x, y, clip_norm=C).multiple == math.inf

    def test_whole_numbers_are_drawn_from_those_there_are(self):
        """Words: clipped they move a sum by 2C at most, and the mean of a batch that is clipped by B times as much."""
        model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, K))
        x = torch.randint(9, (BATCH, 5), generator=generator(0, "audit"))
        y = torch.arange(BATCH) % K
        assert 1.0 < audit.sensitivity(summed(), model, x, y, clip_norm=C).multiple <= 2 + ROUNDING

        def clipped_after(model, x, y):
            total = clipped_sum(model, LOSS, x, y, clip_norm=math.inf)[0]
            factor = C / max(C, float(sum(value.square().sum() for value in total.values()) ** 0.5 / len(y)))
            return {name: factor * value for name, value in total.items()}

        assert audit.sensitivity(clipped_after, model, x, y, clip_norm=C).multiple > 2.1

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"clip_norm": 0.0}, "clip_norm: expected a finite number of more than 0; got 0.0"),
            ({"clip_norm": math.nan}, "clip_norm: expected a finite number of more than 0; got nan"),
            ({"examples": 0}, "examples: expected at least 1, of a batch that has some; got 0 of 12"),
            ({"summed": lambda *_: torch.zeros(3)}, r"summed: expected what returns {parameter name: tensor}; got Ten"),
            ({"summed": lambda *_: {}}, r"summed: expected what returns {parameter name: tensor}; got dict"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, changes, message):
        model, x, y = made("dense", "none", 0)
        how = {"summed": summed(), "clip_norm": C} | changes
        with pytest.raises(ValueError, match=message):
            audit.sensitivity(how.pop("summed"), model, x, y, **how)


class TestWhereItLooks:
    def test_an_example_is_replaced_by_every_label_and_by_inputs_of_every_kind(self):
        _, x, y = made("dense", "none", 0)
        seen = []

        def watched(model, x, y):
            seen.append((x, y))
            return {"sum": x.sum(0)}

        audit.sensitivity(watched, nn.Linear(7, K), x, y, clip_norm=C, examples=1, ascent=0)
        changed = {i for images, _ in seen for i in (images != x).any(1).nonzero().flatten().tolist()}
        assert len(changed) == 1
        (i,) = changed
        neighbours = [(images[i], int(labels[i])) for images, labels in seen[1:]]
        assert {label for _, label in neighbours} == set(range(K))
        for label in range(K):
            tried = [image for image, of in neighbours if of == label]
            for wanted in (x[i], -x[i], 0 * x[i], 0.1 * x[i], 10 * x[i], 100 * x[i], x[(i + 1) % BATCH]):
                assert any(torch.equal(image, wanted) for image in tried)

    def test_labels_that_are_not_in_the_batch_are_tried_if_they_are_told(self):
        _, x, y = made("dense", "none", 0)
        labels = set()
        watched = lambda model, x, y: labels.update(y.tolist()) or {"sum": x.sum(0)}  # noqa: E731
        audit.sensitivity(watched, nn.Linear(7, K), x, y, clip_norm=C, examples=1, ascent=0, classes=K + 2)
        assert labels == set(range(K + 2))

    def test_it_climbs_from_the_best_so_far(self):
        """Where no input is far enough: steps that help add up."""
        _, x, y = made("dense", "none", 0)
        far = lambda model, x, y: {"sum": x.sum(0)}  # noqa: E731
        how = {"clip_norm": C, "examples": 1}
        start, after = (audit.sensitivity(far, nn.Linear(7, K), x, y, ascent=n, **how).multiple for n in (0, 300))
        assert after > 1.5 * start

    def test_every_neighbours_buffers_are_told_of(self):
        """Also those that an example moves which moves the sum by less than another does."""
        _, x, y = made("dense", "none", 0)
        model = nn.Linear(7, K)
        for label in range(K):
            model.register_buffer(f"seen_{label}", torch.tensor(0))

        def counted(model, x, y):
            for label in range(K):
                getattr(model, f"seen_{label}").fill_(int((y == label).sum()))
            return {"sum": (y == 0).sum()}

        found = audit.sensitivity(counted, model, x, y, clip_norm=C, examples=BATCH, ascent=0)
        assert found.buffers == ("seen_0", "seen_1", "seen_2")
        assert found.multiple == pytest.approx(1 / C)


def test_all_that_is_tried_stays_within_what_an_input_can_be():
    seen, x = [], torch.rand(6, 7, generator=torch.Generator().manual_seed(0))

    def watched(model, x, y):
        seen.append(x.clone())
        return summed()(model, x, y)

    model, y = nn.Linear(7, K), torch.arange(6) % K
    audit.sensitivity(watched, model, x, y, clip_norm=C, examples=2, ascent=5, within=(0.0, 1.0))
    assert (torch.stack(seen) >= 0).all()
    assert (torch.stack(seen) <= 1).all()
    assert any((batch == 1).any() for batch in seen)  # as are what is brightened and what has climbed too far
    with pytest.raises(ValueError, match=r"within: expected bounds that x keeps to; got \(0.0, 0.5\) of 0.0"):
        audit.sensitivity(watched, model, x, y, clip_norm=C, within=(0.0, 0.5))


def test_the_batch_that_moves_further_is_told(monkeypatch):
    """Images that are drawn, or one of them over and over, all of them images."""
    asked = []
    monkeypatch.setattr(data, "load", lambda name, load=data.load: load("digits"))
    monkeypatch.setattr(normalisation, "NETWORKS", {"LeNet-5": normalisation.Network("none")})

    def found(summed, model, x, y, **search):
        asked.append((x, y, search["within"]))
        return audit.meter.Measured(float(len(asked) % 2 == 0), "example 3", ())

    monkeypatch.setattr(normalisation, "sensitivity", found)
    assert normalisation.measure()["LeNet-5"]["3"] == {"multiple": 1.0, "how": "example 3, all others alike"}
    (drawn, _, within), (alike, labels, _) = asked[:2]
    assert len(drawn) == len(alike) == normalisation.PRIVATE
    assert not (drawn == drawn[:1]).all()
    assert (alike == drawn[:1]).all()
    assert (labels == labels[0]).all()
    assert within == (0.0, 1.0)
