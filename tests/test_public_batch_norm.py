"""Batch norm with public examples: each mode against a slow, obviously correct loop; who depends on whom."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib import models
from lib.generators import generator
from lib.grads import clipped_sum
from lib.layers import PublicBatchNorm, WithPublic, held_statistics, public_batch_norm

LOSS = partial(F.cross_entropy, reduction="none")
K, BATCH, PUBLIC = 3, 6, 5
STATISTICS = ["mixed", "per_example", "public"]


def test_statistics_are_those_of_the_network_as_it_is():
    """What is held while parameters do not change is not held for longer."""
    model, x, public = models.build("lenet5", norm="public_batch"), torch.rand(4, 1, 28, 28), torch.rand(8, 1, 28, 28)
    together = WithPublic(model, public, statistics="public").train()
    together(x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    torch.testing.assert_close(together(x), WithPublic(model, public, statistics="public").train()(x))


def network(affine: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (2, 3, 3)),
        nn.Conv2d(2, 4, 2),
        PublicBatchNorm(4, affine=affine, pool=nn.MaxPool2d((1, 2))),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, 6),
        PublicBatchNorm(6, affine=affine),
        nn.Tanh(),
        nn.Linear(6, K),
    ).double()


def made(statistics: str, gradient: bool, *, seed: int = 0, public: int = PUBLIC, affine: bool = True) -> WithPublic:
    torch.manual_seed(seed)
    model = network(affine)
    for layer in model.modules():
        if affine and isinstance(layer, PublicBatchNorm):
            nn.init.normal_(layer.affine.weight, 1.0)
            nn.init.constant_(layer.affine.weight[0], -0.5)  # what is largest before is smallest after
            nn.init.normal_(layer.affine.bias)
    return WithPublic(model, torch.randn(public, 18).double(), statistics=statistics, gradient=gradient)


def batch(examples: int = BATCH) -> tuple[Tensor, Tensor]:
    return torch.randn(examples, 18, generator=torch.Generator().manual_seed(1)).double(), torch.arange(examples) % K


def one_pass(model: WithPublic, private: Tensor, *, public_alone: bool) -> Tensor:
    """Slow and obvious: all rows through one layer after the other, statistics by their definition."""
    rows = torch.cat([private, model.public])
    for layer in model.model:
        if isinstance(layer, PublicBatchNorm):
            seen = rows[len(private) :] if public_alone else rows
            others = [d for d in range(rows.dim()) if d != 1]
            mean = seen.mean(others, keepdim=True)
            variance = (seen - mean).square().mean(others, keepdim=True)
            if not model.gradient:
                mean, variance = mean.detach(), variance.detach()
            rows = layer.affine((rows - mean) / torch.sqrt(variance + public_batch_norm.EPS))
            rows = rows if layer.pool is None else layer.pool(rows)
        else:
            rows = layer(rows)
    return rows[: len(private)]


def slow(model: WithPublic, x: Tensor) -> Tensor:
    if model.joint:
        return one_pass(model, x, public_alone=False)
    return torch.cat([one_pass(model, one, public_alone=model.statistics == "public") for one in x.split(1)])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("statistics", STATISTICS)
def test_outputs_are_the_loops(statistics, gradient, training):
    model, (x, _) = made(statistics, gradient).train(training), batch()
    torch.testing.assert_close(model(x), slow(model, x))
    with torch.no_grad():
        torch.testing.assert_close(model(x), slow(model, x))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("statistics", STATISTICS)
def test_per_example_gradients_are_the_loops(statistics, gradient, affine):
    model, (x, y) = made(statistics, gradient, affine=affine).train(), batch()
    each = []
    for i in range(BATCH):
        model.zero_grad()
        LOSS(slow(model, x), y)[i].backward()
        each.append({name: p.grad.clone() for name, p in model.named_parameters()})
    norms = torch.stack([torch.cat([g.flatten() for g in of.values()]).norm() for of in each])
    clip_norm = float(norms.median())
    assert (norms > clip_norm * 1.0001).any()
    factors = (clip_norm / norms).clamp(max=1.0)
    expected = {name: sum(f * of[name] for f, of in zip(factors, each, strict=True)) for name in each[0]}
    for implementation in ["joint"] if statistics == "mixed" else ["fast", "reference", "joint"]:
        total, found = clipped_sum(model, LOSS, x, y, clip_norm=clip_norm, implementation=implementation)
        torch.testing.assert_close(found, norms)
        torch.testing.assert_close(total, expected)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_lenet5_in_all_its_layers(statistics):
    """Convolutions seen by many rows for each example, in the shapes that are trained."""
    torch.manual_seed(0)
    model = models.build("lenet5", norm="public_batch").double()
    model = WithPublic(model, torch.rand(3, 1, 28, 28).double(), statistics=statistics, gradient=True).train()
    x, y = torch.rand(2, 1, 28, 28).double(), torch.tensor([3, 7])
    each = []
    for i in range(2):
        model.zero_grad()
        LOSS(slow(model, x), y)[i].backward()
        each.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    how = {"clip_norm": 1e9, "implementation": "joint" if statistics == "mixed" else "fast"}
    total, norms = clipped_sum(model, LOSS, x, y, **how)
    torch.testing.assert_close(norms, torch.stack(each).norm(dim=1))
    torch.testing.assert_close(torch.cat([g.flatten() for g in total.values()]), sum(each))


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_shared_statistics_have_to_be_asked_for(implementation):
    model, (x, y) = made("mixed", True).train(), batch()
    with pytest.raises(ValueError, match="WithPublic: batch norm on batch statistics makes every example's gradient"):
        clipped_sum(model, LOSS, x, y, clip_norm=1.0, implementation=implementation)


class TestWhoDependsOnWhom:
    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("gradient", [True, False])
    @pytest.mark.parametrize("statistics", ["per_example", "public"])
    def test_an_output_does_not_depend_on_its_neighbours(self, statistics, gradient, training):
        """Bit for bit, under permutation and in parts."""
        model, (x, _) = made(statistics, gradient).train(training), batch(16)
        order = torch.randperm(16, generator=torch.Generator().manual_seed(2))
        outputs = model(x)
        assert torch.equal(model(x[order]), outputs[order])
        assert torch.equal(torch.cat([model(part) for part in x.split(8)]), outputs)
        x[1:] *= 100
        assert torch.equal(model(x)[0], outputs[0])

    def test_with_mixed_statistics_it_does_in_training(self):
        model, (x, _) = made("mixed", True), batch()
        trained, tested = model.train()(x), model.eval()(x)
        changed = torch.cat([x[:1], 3 * x[1:]])
        assert not torch.allclose(model.train()(changed)[0], trained[0], rtol=1e-3)
        assert not torch.allclose(torch.cat([model(part) for part in x.split(2)]), trained, rtol=1e-3)
        assert torch.equal(model.eval()(changed)[0], tested[0])

    @pytest.mark.parametrize("statistics", ["per_example", "public"])
    @pytest.mark.parametrize("gradient", [True, False])
    def test_microbatches_do_not_change_the_clipped_sum(self, statistics, gradient):
        model, (x, y) = made(statistics, gradient).train(), batch()
        whole, parts = (clipped_sum(model, LOSS, x, y, clip_norm=0.5, microbatch_size=m)[0] for m in (None, 2))
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("statistics", ["per_example", "public"])
    @pytest.mark.parametrize("gradient", [True, False])
    def test_nor_do_they_that_of_a_network_in_float32_but_for_rounding(self, statistics, gradient):
        public = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(1))
        network = models.build("lenet5", norm="public_batch_without_affine")
        model = WithPublic(network, public, statistics=statistics, gradient=gradient).train()
        x, y = torch.rand(12, 1, 28, 28, generator=torch.Generator().manual_seed(2)), torch.arange(12) % 10
        whole, *others = (clipped_sum(model, LOSS, x, y, clip_norm=0.5, microbatch_size=m)[0] for m in (None, 3, 5))
        for parts in others:
            torch.testing.assert_close(parts, whole, rtol=1e-4, atol=2e-5)

    def test_microbatches_change_what_mixed_statistics_see(self):
        model, (x, y) = made("mixed", True).train(), batch()
        how = {"clip_norm": 0.5, "implementation": "joint"}
        whole, parts = (clipped_sum(model, LOSS, x, y, microbatch_size=m, **how)[0] for m in (None, 2))
        assert not torch.allclose(parts["model.1.weight"], whole["model.1.weight"], rtol=1e-2)

    @torch.no_grad()
    def test_with_many_public_examples_all_agree(self):
        x, _ = batch()

        def spread(public: int) -> float:
            outputs = [made(statistics, False, public=public).train()(x) for statistics in STATISTICS]
            return max(float((output - outputs[0]).abs().max()) for output in outputs)

        assert spread(3000) < 0.02 < 0.2 < spread(3)


def test_the_test_phase_is_the_papers_loop():
    """Each x with the public examples, one at a time, through torch's batch norm in training mode (v2 algorithm 1)."""
    model, (x, _) = made("mixed", True).eval(), batch()
    norms = {2: nn.BatchNorm2d(4), 6: nn.BatchNorm1d(6)}
    for i, norm in norms.items():
        norm.load_state_dict(model.model[i].affine.state_dict(), strict=False)
    pooled = {2: nn.Sequential(norms[2], model.model[2].pool), 6: norms[6]}
    twin = nn.Sequential(*[pooled.get(i, layer) for i, layer in enumerate(model.model)]).double()
    expected = torch.cat([twin(torch.cat([one, model.public]))[:1] for one in x.split(1)])
    torch.testing.assert_close(model(x), expected)


def test_a_pass_in_chunks_is_the_same(monkeypatch):
    model, (x, _) = made("per_example", False).eval(), batch(7)
    whole = model(x)
    monkeypatch.setattr("lib.layers.with_public.CHUNK", {"cpu": 2 * (1 + PUBLIC)})
    torch.testing.assert_close(model(x), whole)


@pytest.mark.parametrize("gradient", [True, False])
def test_memory_is_bounded_by_the_microbatch(gradient):
    """No layer ever sees more rows than those of a microbatch, each example with its public ones."""
    model, (x, y) = made("per_example", gradient).train(), batch(20)
    rows = []
    for layer in model.model:
        layer.register_forward_hook(lambda layer, inputs, output: rows.append(len(output)))
    clipped_sum(model, LOSS, x, y, clip_norm=0.5, microbatch_size=4)
    assert max(rows) == 4 * (1 + PUBLIC)


def test_held_statistics_are_found_once_and_let_go():
    model, (x, _) = made("public", False).eval(), batch()
    before = model(x)
    with held_statistics(model):
        torch.testing.assert_close(model(x), before)
        with torch.no_grad():
            model.model[1].weight.mul_(0.5)
            model.model[1].bias.mul_(0.5)
        assert not torch.allclose(model(x), before)  # with the statistics of the weights before
    torch.testing.assert_close(model(x), before, rtol=1e-3, atol=1e-3)  # batch norm does not feel the scale


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"statistics": "running"}, "statistics: expected one of mixed, per_example, public; got 'running'"),
        ({"shared_by": -1}, "shared_by: expected at least 1, or 0 for all; got -1"),
        ({"public": torch.zeros(0, 18)}, "expected public examples; got none"),
        ({"model": nn.Linear(18, 3)}, "expected PublicBatchNorm layers in the model; got none"),
    ],
)
def test_what_makes_no_sense_is_refused(how, message):
    settings = {"model": network(), "public": torch.zeros(4, 18), "statistics": "public"} | how
    with pytest.raises(ValueError, match=message):
        WithPublic(settings.pop("model"), settings.pop("public"), **settings)


@pytest.mark.parametrize("gradient", [True, False])
def test_public_examples_alone_are_refused(gradient):
    model = WithPublic(network(), torch.zeros(4, 18), statistics="per_example", gradient=gradient)
    with pytest.raises(ValueError, match="x: expected at least one example beside the public ones; got none"):
        model(torch.zeros(0, 18))


def test_a_layer_by_itself_is_refused():
    with pytest.raises(RuntimeError, match="expected to be in a model inside WithPublic"):
        PublicBatchNorm(3)(torch.zeros(2, 3))


def test_statistics_are_found_in_float32_in_mixed_precision_too():
    """As torch's own batch norm finds them: in bfloat16 a mean over many positions is off by several thousandths."""
    rows = torch.randn(1, 12, 8, 16, 16, generator=generator(0, "init")) + 3.0
    exact = public_batch_norm._moments(rows.bfloat16().double())
    for found, expected in zip(public_batch_norm._moments(rows.bfloat16()), exact, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0.0)


class Reuses(nn.Module):
    """Calls its norm layer so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.first, self.norm, self.second, self.times = nn.Linear(8, 4), PublicBatchNorm(4), nn.Linear(4, 4), times

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(self.times):
            x = self.second(self.norm(x).relu())
        return x


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(("times", "got"), [(2, "two"), (0, "a layer that the model does not call")])
def test_a_layer_that_is_not_called_once_is_refused(gradient, times, got):
    """A second call would be normalised by the first one's statistics."""
    model = WithPublic(Reuses(times), torch.randn(5, 8), statistics="per_example", gradient=gradient)
    if times or not gradient:
        with pytest.raises(RuntimeError, match=f"PublicBatchNorm: expected one call in a pass; got {got}"):
            model(torch.randn(3, 8))
