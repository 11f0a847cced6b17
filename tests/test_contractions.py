"""Forms of per-example gradients: which is used, how exact its norms are."""

import pytest
import torch
from torch import nn

from lib.grads.contractions import Outer, Shared, gram_is_smaller, squares_of_vectors
from lib.grads.convolution import Convolution


@pytest.mark.parametrize(
    ("positions", "d_in", "d_out", "gram"),
    [(1, 50, 40, True), (3, 50, 40, True), (25, 200, 10, True), (300, 50, 40, False), (2, 100_001, 1, False)],
)
def test_the_gram_form_is_used_where_it_is_smaller(positions, d_in, d_out, gram):
    outer = Outer(torch.randn(2, positions, d_in), torch.randn(2, positions, d_out))
    a, b = torch.randn(2, d_in, positions, 1), torch.randn(2, d_out, positions, 1)
    conv = Convolution(nn.Conv2d(d_in, d_out, 1), [a], [b])
    assert (outer.gram, conv.gram) == (gram, gram)
    assert (outer.gradients is None, conv.materialised is None) == (gram, gram)
    gradients = torch.einsum("bto,bti->boi", outer.b, outer.a)
    torch.testing.assert_close(outer.squares(), gradients.square().sum((1, 2)), rtol=1e-4, atol=1e-3)
    gradients = b.flatten(2) @ a.flatten(2).mT
    torch.testing.assert_close(conv.squares(), gradients.square().sum((1, 2)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "calls", "d_in", "d_out", "form"),
    [
        (2, [30], 4, 5, "row by row"),
        (3, [2], 20, 30, "inner products"),
        (9, [4], 20, 30, "laid out"),
        (2, [30, 7], 4, 5, "laid out"),
        (1, [1, 2], 20, 30, "inner products"),
    ],
)
def test_losses_that_share_a_layers_inputs_have_gradients_of_their_own(rows, calls, d_in, d_out, form):
    """Two groups of three losses: in each of the forms, by their definition."""
    by_row = len(calls) == 1 and d_in * d_out <= (d_in + d_out) * calls[0]
    by_products = gram_is_smaller(rows * sum(calls), d_in, d_out)
    assert form == ("row by row" if by_row else "inner products" if by_products else "laid out")
    a = [torch.randn(2, rows, d_in, positions).double() for positions in calls]
    b = [torch.randn(2, rows, 3, d_out, positions).double() for positions in calls]
    gradients = sum(torch.einsum("kriot,krdt->kiod", *call) for call in zip(b, a, strict=True)).flatten(0, 1)

    def weighted(of_calls: list[torch.Tensor]) -> torch.Tensor:
        assert [g.shape for g in of_calls] == [(2 * rows, d_out, positions) for positions in calls]
        return sum(torch.einsum("not,ndt->od", g, x.flatten(0, 1)) for g, x in zip(of_calls, a, strict=True))

    shared, weights = Shared(a, b, weighted), torch.rand(6).double()
    torch.testing.assert_close(shared.squares(), gradients.square().sum((1, 2)))
    torch.testing.assert_close(shared.weighted_sum(weights), torch.einsum("i,iod->od", weights, gradients))


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 1, "groups": 2},
        {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},
        {"kernel_size": (2, 3), "padding": "same", "dilation": 2},
        {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
        {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
        {"kernel_size": 1, "bias": False},
    ],
)
def test_inner_products_of_patches_come_from_those_of_pixels(how):
    draws = torch.Generator().manual_seed(0)
    layer = nn.Conv2d(40, 40, **how)
    x = torch.randn(5, 40, 4, 5, generator=draws)
    y = layer(x)
    b = torch.randn(y.shape, generator=draws)
    conv = Convolution(layer, [x], [b])
    assert conv.gram
    assert conv.gram_is_faster
    alone = [torch.autograd.grad(layer(x[i : i + 1]), layer.weight, b[i : i + 1])[0] for i in range(len(x))]
    torch.testing.assert_close(conv.squares(), torch.stack([g.square().sum() for g in alone]), rtol=1e-4, atol=0.0)
    torch.testing.assert_close(conv.weighted_sum(torch.ones(5)), sum(alone), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("apart", [1e-3, 3e-4, 1e-4])
@pytest.mark.parametrize("pairs", [1, 20])  # with few the Gram form takes less arithmetic, too
def test_a_gradient_whose_parts_cancel_is_clipped_all_the_same(pairs, apart):
    """Inner products of 1e12 that add up to 1e4: what rounding leaves of them may not be taken for the norm."""
    draws = torch.Generator().manual_seed(0)
    v, b = (torch.randn(20, pairs, size, generator=draws) for size in (396, 16))
    a = 1e5 * torch.cat([v, v * (1 + apart)], dim=1)
    b = torch.cat([b, -b], dim=1)
    outputs = b.mT.unsqueeze(3)
    images = nn.functional.fold(a.mT, (6 * pairs, 3), kernel_size=3, stride=3)
    forms = (
        Outer(a, b),
        Convolution(nn.Conv2d(396, 16, 1), [a.mT.unsqueeze(3)], [outputs]),
        Convolution(nn.Conv2d(44, 16, 3, stride=3), [images], [outputs]),
    )
    true = torch.einsum("bto,bti->boi", b.double(), a.double()).square().sum((1, 2))
    for form in forms:
        assert form.gram
        squares = form.squares()
        assert (squares.double() >= true).all()
        assert (squares <= 1e-5 * (a.norm(dim=2) * b.norm(dim=2)).sum(1).square() + 1.01 * true).all()


@pytest.mark.parametrize("terms", [1000, 4000, 30_000, 100_000])
def test_inner_products_of_many_equal_terms_are_rounded_up(terms):
    """All of whose errors may go the same way."""
    for value in torch.linspace(0.1, 1.0, 19).tolist():
        for rows in (2, 3, 16):
            a, b = torch.full((1, rows, terms), value), torch.full((1, rows, 9), value)
            true = (rows * terms**0.5 * 3.0 * float(a[0, 0, 0]) ** 2) ** 2
            form = Outer(a, b)
            assert form.gram
            assert true <= form.squares().item() <= (1 + 2e-3) * true


@pytest.mark.parametrize("size", [1, 255, 256, 257, 10_000, 1_000_003])
@pytest.mark.parametrize("equal", [True, False])
def test_norms_are_rounded_up(size, equal):
    """By a millionth; a norm that is too small would let an example move more than the clip norm."""
    values = torch.full((2, size), 0.3) if equal else torch.randn(2, size)
    exact = values.double().square().sum(1)
    assert ((exact <= squares_of_vectors(values)) & (squares_of_vectors(values) <= exact * (1 + 3e-6))).all()


@pytest.mark.parametrize("apart", [1e-3, 1e-4])
def test_shared_inputs_whose_parts_cancel_are_clipped_all_the_same(apart):
    draws = torch.Generator().manual_seed(0)
    v, b = torch.randn(5, 1, 396, 3, generator=draws), torch.randn(5, 1, 2, 16, 3, generator=draws)
    a, b = 1e5 * torch.cat([v, v * (1 + apart)], dim=3), torch.cat([b, -b], dim=4)
    assert gram_is_smaller(6, 396, 16)
    shared = Shared([a[..., :3], a[..., 3:]], [b[..., :3], b[..., 3:]], lambda calls: None)
    true = torch.einsum("krdt,kriot->kiod", a.double(), b.double()).square().sum((2, 3)).flatten()
    assert (shared.squares().double() >= true).all()
