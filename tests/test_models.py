"""Architectures against v1 appendix A, and the scale invariance that v2 section 2 builds on."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lib import models, registry, tables
from lib.layers import NoisyConv2d, NoisyLinear
from lib.models.bilstm import HIDDEN

STAGES = [*[1] * 5, *[2] * 5, *[4] * 5, *[8] * 5]  # of ResNet-18: the projection is the third convolution of a stage
WIDTHS = {
    "bilstm": [128, 128, 128, 128, 10],
    "lenet5": [6, 16, 120, 84, 10],
    "lenet_300_100": [300, 100, 10],
    "pca_1000": [1000, 10],
    "tf_privacy": [16, 32, 32, 10],
    "convnet": [32, 64, 64, 128, 10],
    "lenet5_tanh": [6, 16, 120, 84, 10],
    "resnet18": [*(64 * stage for stage in STAGES), 10],
    "resnet18_narrow": [*(16 * stage for stage in STAGES), 10],
    "vgg16": [64] * 2 + [128] * 2 + [256] * 4 + [512] * 8 + [10],
    "vgg16_narrow": [16] * 2 + [32] * 2 + [64] * 4 + [128] * 8 + [10],
    "light_vgg": [64] * 2 + [128] * 2 + [256] * 4 + [512, 10],
    "light_vgg_narrow": [32] * 2 + [64] * 2 + [128] * 4 + [512, 10],
    "fast_cifar": [64, 128, 128, 128, 256, 512, 512, 512, 10],
    "fast_cifar_narrow": [16, 32, 32, 32, 64, 128, 128, 128, 10],
    "tf_tutorial": [64, 64, 384, 384, 10],
}
PARAMETERS = {"lenet5": 61_706, "lenet_300_100": 266_610, "pca_1000": 71_010, "tf_privacy": 26_010}
PARAMETERS |= {"convnet": 131_466, "lenet5_tanh": 61_706, "resnet18": 11_164_362, "resnet18_narrow": 699_066}
PARAMETERS |= {"bilstm": 34_954}


def mapped(widths: list[int], *, inputs: int = 3, kernel: int = 3, bias: bool = True, **vectors: int) -> int:
    """Parameters of a chain of maps: convolutions, then linear layers from the ``vectors`` = {place: D} on."""
    total, before = 0, inputs
    for place, width in enumerate(widths):
        before = vectors.get(f"at_{place}", before)
        square = 1 if place >= min(int(name[3:]) for name in vectors) else kernel**2
        total += width * (before * square + bias)
        before = width
    return total


PARAMETERS |= {name: mapped(WIDTHS[name], at_16=WIDTHS[name][15]) for name in ("vgg16", "vgg16_narrow")}
PARAMETERS |= {name: mapped(WIDTHS[name], at_8=WIDTHS[name][7]) for name in ("light_vgg", "light_vgg_narrow")}
PARAMETERS |= {name: mapped(WIDTHS[name], at_8=WIDTHS[name][7], bias=False) for name in WIDTHS if "fast" in name}
PARAMETERS |= {"tf_tutorial": mapped(WIDTHS["tf_tutorial"], kernel=5, at_2=6 * 6 * 64)}
NAMES = ["lenet5", "lenet_300_100", "pca_1000", "tf_privacy"]  # v1's and v2's: a norm layer after every trainable one
FEATURES = {"bilstm": 100}  # of texts: GloVe's 100 dimensions
LAYERS = {"convnet": (10, 18), "lenet5_tanh": (10, 16), "resnet18": (22, 62)}  # bc's: tensors, without and with BN
IMAGES = {"convnet": (3, 32, 32), "lenet5_tanh": (1, 32, 32), "resnet18": (3, 32, 32), "resnet18_narrow": (3, 32, 32)}
CIFAR = {  # v1's and v2's for CIFAR-10, at the width that tests can afford: norm layers, side of the images
    "resnet18_narrow": (20, 32),
    "vgg16_narrow": (16, 32),
    "fast_cifar_narrow": (8, 32),
    "light_vgg_narrow": (9, 32),
    "tf_tutorial": (4, 24),
}


def trainable_maps(model: nn.Module) -> list[nn.Module]:
    return [layer for layer in model.modules() if isinstance(layer, NoisyConv2d | NoisyLinear)]


@pytest.mark.parametrize("name", WIDTHS)
def test_architectures_are_the_papers(name):
    with torch.device("meta"):
        model = models.build(name, features=FEATURES.get(name))
    assert [len(layer.weight) for layer in trainable_maps(model)] == WIDTHS[name]
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", LAYERS)
def test_bc_networks_have_as_many_parameter_tensors_as_bc_counts_layers(name):
    """62 for ResNet-18; BN-LeNet-5's 8 are modules, of two tensors each."""
    with torch.device("meta"):
        found = [len(list(models.build(name, norm=norm).parameters())) for norm in ("none", "batch")]
    assert tuple(found) == LAYERS[name]


@pytest.mark.parametrize("name", [name for name in IMAGES if name != "resnet18"])
@pytest.mark.parametrize("norm", ["none", "batch", "layer", "layer_without_affine", "instance"])
def test_bc_networks_turn_images_into_logits(name, norm):
    if (name, norm) == ("lenet5_tanh", "instance"):
        with pytest.raises(
            ValueError, match=r"another than 'instance', .* single value per channel, which normalised by itself is 0"
        ):
            models.build(name, norm=norm)
        return
    model = models.build(name, norm=norm, classes=7)
    assert model(torch.rand(3, *IMAGES[name])).shape == (3, 7)


def test_instance_norm_is_batch_norm_of_a_batch_of_one():
    x, (batch,), (instance,) = (
        torch.rand(4, 5, 6, 6),
        models.norm_layer("batch", 5, 6, 6),
        models.norm_layer("instance", 5, 6, 6),
    )
    torch.testing.assert_close(instance(x), torch.cat([batch(one) for one in x.split(1)]))


def test_in_convnet_the_norm_layer_follows_the_activation():
    layers = list(models.build("convnet", norm="batch"))
    assert [type(layer) for layer in layers[:4]] == [NoisyConv2d, nn.ReLU, nn.BatchNorm2d, nn.AvgPool2d]


def test_a_resnet_block_is_its_residual_plus_its_shortcut():
    model, x = models.build("resnet18_narrow", norm="batch").eval(), torch.rand(2, 3, 32, 32)
    stem, block = model[:3](x), model[5]  # the first block that halves the map
    x = model[3:5](stem)
    assert x.shape == (2, 16, 32, 32)
    expected = (block.residual(x) + block.shortcut(x)).relu()
    assert expected.shape == (2, 32, 16, 16)
    assert torch.equal(block(x), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", ["none", "batch", "layer", "layer_without_affine", "group_without_affine"])
@pytest.mark.parametrize(("activation", "kind"), [("relu", nn.ReLU), ("tanh", nn.Tanh)])
def test_images_become_logits(name, norm, activation, kind):
    model = models.build(name, norm=norm, activation=activation, classes=7)
    assert model(torch.rand(3, 1, 28, 28)).shape == (3, 7)
    assert {type(layer) for layer in model} & {nn.ReLU, nn.Tanh} == {kind}


@pytest.mark.parametrize("name", NAMES)
def test_layer_norm_without_affine_adds_no_parameters_and_leaves_the_logits_alone(name):
    model = models.build(name, norm="layer_without_affine")
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]
    assert sum(isinstance(layer, nn.LayerNorm) for layer in model) == len(WIDTHS[name]) - 1
    assert isinstance(model[-1], NoisyLinear)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("norm", "kinds"), [("batch", (nn.BatchNorm1d, nn.BatchNorm2d)), ("layer", (nn.LayerNorm,))])
def test_a_norm_layer_follows_every_trainable_layer(name, norm, kinds):
    layers = list(models.build(name, norm=norm))
    for i, layer in enumerate(layers):
        assert isinstance(layer, NoisyConv2d | NoisyLinear) == (
            i + 1 < len(layers) and isinstance(layers[i + 1], kinds)
        )


def scaled(model: nn.Module, factor: float, x: torch.Tensor) -> torch.Tensor:
    """The output with every weight and bias multiplied by ``factor``; γ and β are left as they are."""
    with torch.no_grad():
        for layer in trainable_maps(model):
            layer.weight.mul_(factor)
            layer.bias.mul_(factor)
        y = model(x)
        for layer in trainable_maps(model):
            layer.weight.div_(factor)
            layer.bias.div_(factor)
    return y


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", ["batch", "layer"])
@given(factor=st.floats(0.25, 64.0), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=10, derandomize=True)
def test_normalised_networks_do_not_feel_the_scale_of_their_weights(name, norm, factor, seed):
    torch.manual_seed(seed)
    model, x = models.build(name, norm=norm).double(), torch.rand(8, 1, 28, 28, dtype=torch.float64)
    for layer in model:
        if hasattr(layer, "eps"):
            layer.eps = 1e-12  # the ε that keeps the division finite is all that breaks the invariance
    torch.testing.assert_close(scaled(model, factor, x), model(x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_plain_networks_do(name):
    model, x = models.build(name), torch.rand(8, 1, 28, 28)
    assert not torch.allclose(scaled(model, 2.0, x), model(x), rtol=0.1)


def test_an_unknown_norm_is_refused():
    with pytest.raises(
        ValueError, match=r"norm: expected one of none, batch, layer, layer_without_affine, instance, .*; got 'group'"
    ):
        models.build("lenet5", norm="group")


@pytest.mark.parametrize("norm", ["none", "layer", "layer_without_affine"])
def test_texts_become_logits_that_do_not_see_the_padding(norm):
    model = models.build("bilstm", norm=norm, classes=4, features=6)
    x = torch.randn(3, 9, 6)
    x[1, 5:] = 0.0
    logits = model(x)
    assert logits.shape == (3, 4)
    torch.testing.assert_close(logits[1:2], model(x[1:2, :5]))
    assert model(torch.zeros(2, 9, 6)).isfinite().all()  # an empty text
    norms = {"none": 0, "layer": 5, "layer_without_affine": 4}
    assert sum(isinstance(layer, nn.LayerNorm) for layer in model.modules()) == norms[norm]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("bilstm", {}, "model: expected one of convnet, .*, vgg16_narrow for these data; got 'bilstm'"),
        ("lenet5", {"features": 50}, "model: expected one of bilstm for these data; got 'lenet5'"),
        ("bilstm", {"features": 50, "norm": "batch"}, "norm: expected one of none, layer, layer_without_affine"),
        ("bilstm", {"features": 50, "activation": "tanh"}, "activation: expected 'relu' for model 'bilstm'"),
    ],
)
def test_a_model_takes_what_it_is_made_for(name, settings, message):
    with pytest.raises(ValueError, match=message):
        models.build(name, **settings)


@pytest.mark.parametrize("name", CIFAR)
@pytest.mark.parametrize("norm", ["none", "batch", "layer", "layer_without_affine", "group_without_affine"])
def test_cifar_networks_turn_images_into_logits_with_a_norm_layer_after_every_map_but_the_last(name, norm):
    norms, side = CIFAR[name]
    model = models.build(name, norm=norm, classes=7)
    assert model(torch.rand(2, 3, side, side)).shape == (2, 7)
    kinds = nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm | nn.GroupNorm
    assert sum(isinstance(layer, kinds) for layer in model.modules()) == (0 if norm == "none" else norms)
    assert len(trainable_maps(model)) == norms + 1


@pytest.mark.parametrize("name", ["resnet18_narrow", "vgg16_narrow"])
def test_v2_table_3_varies_the_last_norm_layer(name):
    designed, removed, added = (
        models.build(name, norm="batch", last_norm=last_norm) for last_norm in models.LAST_NORMS
    )
    channels = [
        [len(layer.weight) for layer in model.modules() if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d)]
        for model in (designed, removed, added)
    ]
    assert channels[0] == [*channels[1], 128]
    assert channels[2] == [*channels[0], 10]
    assert isinstance(added[-1], nn.BatchNorm1d)
    assert isinstance(removed[-1], NoisyLinear)
    assert removed(torch.rand(2, 3, 32, 32)).shape == added(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("name", ["fast_cifar", "tf_tutorial", "light_vgg"])
def test_other_networks_have_their_norm_layers_as_designed(name):
    with pytest.raises(ValueError, match=f"last_norm: expected 'as_designed' for model '{name}'; got 'added'"):
        models.build(name, norm="batch", last_norm="added")
    with pytest.raises(ValueError, match="last_norm: expected one of as_designed, removed, added; got 'moved'"):
        models.build(name, last_norm="moved")


@pytest.mark.parametrize(
    ("name", "settings", "parameters"),
    [
        ("resnet18", {"norm": "batch"}, 11_173_962),  # 11.17 million, as it is known
        ("resnet18", {"norm": "batch", "last_norm": "removed"}, 11_173_962 - 2 * 512),  # v2's -mod
        ("resnet18", {"norm": "batch", "last_norm": "added"}, 11_173_962 + 2 * 10),  # v2's BN-
        ("vgg16", {"norm": "batch"}, 20_040_522),
        ("vgg16", {"norm": "batch", "last_norm": "removed"}, 20_040_522 - 2 * 512),
        ("vgg16", {"norm": "batch", "last_norm": "added"}, 20_040_522 + 2 * 10),
        ("fast_cifar", {"norm": "batch"}, 6_573_120),  # davidcpage's network
        ("light_vgg", {"norm": "batch"}, 2_466_122),
        ("tf_tutorial", {"norm": "batch"}, PARAMETERS["tf_tutorial"] + 2 * (64 + 64 + 384 + 384)),
        ("bilstm", {"norm": "layer", "features": 100}, PARAMETERS["bilstm"] + 2 * (4 * 128 + 10)),  # v2's LN-
        ("bilstm", {"norm": "none", "features": 50}, PARAMETERS["bilstm"] - 2 * 50 * 128),
    ],
)
def test_parameter_counts_with_norm_layers(name, settings, parameters):
    with torch.device("meta"):
        assert sum(p.numel() for p in models.build(name, **settings).parameters()) == parameters


def test_fast_cifar_adds_its_pairs_to_what_they_are_given():
    model, x = models.build("fast_cifar_narrow", norm="batch").eval(), torch.rand(2, 32, 16, 16)
    pair = model[7]
    assert torch.equal(pair(x), x + pair.residual(x))
    assert model[-1].factor == 1 / 8


@pytest.mark.parametrize("name", CIFAR)
def test_a_network_can_be_cut_where_its_map_becomes_a_vector(name):
    side = CIFAR[name][1]
    model, x = models.build(name, norm="batch").eval(), torch.rand(2, 3, side, side)
    convolutions, linear = models.cut(model)
    assert {type(layer) for layer in trainable_maps(convolutions)} == {NoisyConv2d}
    assert {type(layer) for layer in trainable_maps(linear)} == {NoisyLinear}
    features = convolutions(x)
    assert features.dim() == 2
    assert torch.equal(linear(features), model(x))


def one_layer(*, norm, activation, classes):
    return nn.Sequential(nn.Flatten(), NoisyLinear(784, classes), *models.norm_layer(norm, classes))


def without_norm(*, norm, activation, classes):
    return one_layer(norm="none", activation=activation, classes=classes)


def without_noise(*, norm, activation, classes):
    return nn.Sequential(nn.Conv2d(1, 3, 28), nn.Flatten(), nn.Linear(3, classes), *models.norm_layer(norm, classes))


def always_normalised(*, norm, activation, classes):
    return one_layer(norm="batch", activation=activation, classes=classes)


@pytest.mark.parametrize(
    ("build", "norm", "message"),
    [
        (without_norm, "batch", "expected norm layers with norm 'batch'; got those of norm 'none'"),
        *(
            (without_noise, norm, r"expected noisy layers of .*NoisyLinear.*; got Conv2d '0', Linear '2'$")
            for norm in ("none", "layer")
        ),
        (always_normalised, "none", "for all that is trained with norm 'none'; got BatchNorm1d '2'"),
        (lambda norm, classes: None, "none", r"expected build\(norm, activation, classes\) that .* \(norm, classes\)"),
        (lambda **settings: None, "none", "that returns an nn.Module; got None"),
        (None, "none", "that returns an nn.Module; got None"),
    ],
)
def test_a_model_of_which_a_record_would_be_false_is_refused(build, norm, message, monkeypatch):
    monkeypatch.setattr(registry, "load", lambda room, name: SimpleNamespace(build=build))
    with pytest.raises(ValueError, match=rf"^lib/models/tiny\.py: .*{message}"):
        models.build("tiny", norm=norm)
    monkeypatch.setattr(registry, "load", lambda room, name: SimpleNamespace(build=one_layer))
    assert len(models.build("tiny", norm=norm)) == 2 + (norm != "none")


def test_every_model_of_a_table_has_the_norm_that_its_runs_name():
    found = set()
    for table in map(tables.load, registry.names("tables")):
        for (row, column), tier in ((cell, tier) for cell in table.cells for tier in tables.TIERS):
            run = table.cell(row, column, seed=0, tier=tier, **next(iter(table.points(row, column, tier)), {}))
            found.add((run.model, run.norm, run.activation, run.last_norm))
    for name, norm, activation, last_norm in found:
        with torch.device("meta"):
            models.build(name, norm=norm, activation=activation, last_norm=last_norm, features=FEATURES.get(name))


def test_the_first_weights_are_what_the_file_draws():
    made = registry.load("models", "lenet5").build(norm="batch", activation=nn.ReLU, classes=10)
    after = torch.rand(1)
    torch.manual_seed(0)
    built = models.build("lenet5", norm="batch")
    assert all(torch.equal(one, other) for one, other in zip(made.parameters(), built.parameters(), strict=True))
    assert torch.equal(torch.rand(1), after)


@pytest.mark.parametrize(("name", "features"), [("bilstm", 50), ("lenet_300_100", None)])
def test_a_network_without_convolutions_cannot_be_cut(name, features):
    with pytest.raises(ValueError, match=r"model: expected a sequence of convolutions, nn\.Flatten and linear layers"):
        models.cut(models.build(name, features=features))


POOLS = {
    "convnet": ["AvgPool2d"] * 3 + ["AdaptiveAvgPool2d"],
    "lenet5": ["MaxPool2d"] * 2,
    "lenet5_tanh": ["AvgPool2d"] * 2,
    "tf_privacy": ["MaxPool2d"] * 2,
    "tf_tutorial": ["MaxPool2d"] * 2,
    "vgg16_narrow": ["MaxPool2d"] * 4 + ["AdaptiveAvgPool2d"],
    "light_vgg_narrow": ["MaxPool2d"] * 3 + ["AdaptiveAvgPool2d"],
    "fast_cifar_narrow": ["MaxPool2d"] * 3 + ["AdaptiveMaxPool2d"],
    "resnet18_narrow": ["AdaptiveAvgPool2d"],
}


@pytest.mark.parametrize("name", POOLS)
def test_a_network_pools_as_its_paper_does(name):
    layers = [type(layer).__name__ for layer in models.build(name).modules()]
    assert [kind for kind in layers if "Pool" in kind] == POOLS[name]


def test_a_word_with_a_vector_of_zeros_within_a_text_is_no_padding():
    model = models.build("bilstm", classes=4, features=6)
    x = torch.randn(1, 5, 6)
    x[0, 1] = 0.0  # as of a word whose vector is 0, in the middle
    changed = x.clone()
    changed[0, 4] += 1.0
    assert not torch.equal(model(x), model(changed))


def test_group_norm_has_two_groups_of_channels():
    (group,) = models.norm_layer("group_without_affine", 6, 4, 4)
    x = torch.randn(3, 6, 4, 4)
    by_hand = torch.cat([F.layer_norm(half, half.shape[1:]) for half in x.split(3, 1)], 1)
    torch.testing.assert_close(group(x), by_hand)


ACTIVATIONS = {"lenet5": 4, "lenet_300_100": 2, "pca_1000": 1, "tf_privacy": 3, "convnet": 4, "lenet5_tanh": 4}
ACTIVATIONS |= {"tf_tutorial": 4, "vgg16_narrow": 16, "light_vgg_narrow": 9, "fast_cifar_narrow": 8}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_follows_every_trainable_layer_but_the_last(name):
    model = models.build(name)
    maps = sum(1 for p in model.parameters() if p.dim() > 1)
    assert sum(isinstance(layer, nn.ReLU) for layer in model.modules()) == ACTIVATIONS[name] == maps - 1


@pytest.mark.parametrize(("name", "after"), [*((name, 1) for name in CIFAR), ("convnet", 2), ("lenet5_tanh", 2)])
def test_where_the_norm_layers_stand(name, after):
    """v1 and v2 normalise what each layer but the last gives; bc what the activation of each convolution gives."""
    leaves = [layer for layer in models.build(name, norm="batch").modules() if not [*layer.children()]]
    kinds = NoisyConv2d | NoisyLinear if after == 1 else NoisyConv2d
    layers = [i for i, layer in enumerate(leaves) if isinstance(layer, kinds)]
    norms = [i for i, layer in enumerate(leaves) if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert norms == [i + after for i in (layers[:-1] if after == 1 else layers)]


SIDES = {  # of the maps that the convolutions give
    "convnet": [32, 16, 8, 4],
    "lenet5_tanh": [28, 10, 1],
    "tf_tutorial": [24, 12],
    "vgg16_narrow": [32] * 2 + [16] * 2 + [8] * 4 + [4] * 4 + [2] * 4,
    "light_vgg_narrow": [32] * 2 + [16] * 2 + [8] * 4,
    "fast_cifar_narrow": [32, 32, 16, 16, 16, 8, 4, 4],
    "resnet18_narrow": [32] * 5 + [16] * 5 + [8] * 5 + [4] * 5,
}


@pytest.mark.parametrize("name", SIDES)
def test_maps_shrink_where_the_paper_pools(name):
    model, sides = models.build(name), []
    for layer in model.modules():
        if isinstance(layer, NoisyConv2d):
            layer.register_forward_hook(lambda _, __, y: sides.append(y.shape[-1]))
    model(torch.rand(1, 1 if name == "lenet5_tanh" else 3, *[24 if name == "tf_tutorial" else 32] * 2))
    assert sides == SIDES[name]


@pytest.mark.parametrize("shape", [(3,), (3, 4, 4)])
def test_running_averages_are_torchs_own(shape):
    """Which the rows "running averages" are about."""
    assert models.norm_layer("batch", *shape)[0].momentum == 0.1


@pytest.mark.parametrize(("kept", "word"), [(slice(None, HIDDEN), 4), (slice(HIDDEN, None), 0)])
def test_either_way_ends_where_it_has_read_the_whole_text(kept, word):
    """The forward way with the last word, the backward one with the first."""
    model = models.build("bilstm", classes=4, features=6)
    weight = model.dense[0].weight.detach()
    one_way = torch.zeros_like(weight)
    one_way[:, kept] = weight[:, kept]
    weight.copy_(one_way)
    x = torch.randn(1, 5, 6)
    changed = x.clone()
    changed[0, word] += 1.0
    assert not torch.equal(model(x), model(changed))
