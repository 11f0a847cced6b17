"""Private principal components."""

import pytest
import torch

from lib.data import as_input
from lib.generators import generator
from lib.pca import principal_components


def images(examples: int = 300, side: int = 4) -> torch.Tensor:
    draws = generator(0, "images")
    return torch.randint(0, 256, (examples, 1, side, side), generator=draws, dtype=torch.uint8)


def components(values: torch.Tensor, dimensions: int = 3, z: float = 0.0, seed: int = 0) -> torch.Tensor:
    draws = generator(seed, "pca noise")
    return principal_components(values, dimensions, noise_multiplier=z, generator=draws)


def test_without_noise_they_are_the_right_singular_vectors_of_the_unit_rows():
    rows = torch.nn.functional.normalize(as_input(images()).flatten(1).double(), dim=1)
    _, _, expected = torch.linalg.svd(rows, full_matrices=False)
    found = components(images())
    assert torch.allclose((found.double() @ expected[:3].T).abs(), torch.eye(3, dtype=torch.float64), atol=1e-5)


def test_they_are_orthonormal_whatever_the_noise():
    for z in (1.0, 1e6):
        found = components(images(), z=z)
        assert torch.allclose(found @ found.T, torch.eye(3), atol=1e-5)


def test_a_little_noise_turns_them_a_little_and_much_noise_loses_them():
    first, little, much = (components(images(3000), 1, z=z)[0] for z in (0.0, 1.0, 1e5))
    assert abs(first @ little) > 0.99
    assert abs(first @ much) < 0.8


def test_the_noise_has_the_scale_asked_for(monkeypatch):
    """Black images have no covariance, so the eigendecomposition is handed the noise alone."""
    seen = []
    original = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: seen.append(matrix) or original(matrix))
    components(torch.zeros(5, 1, 20, 20, dtype=torch.uint8), z=7.0)
    assert torch.equal(seen[0], seen[0].T)
    entries = seen[0][torch.triu(torch.ones(400, 400, dtype=torch.bool))]
    assert entries.std() == pytest.approx(7.0, rel=0.02)  # 80,200 entries: seven standard errors
    assert seen[0].diagonal().std() == pytest.approx(7.0, rel=0.2)  # 400: six; they are the squares of the examples


def test_one_more_image_moves_the_covariance_by_1(monkeypatch):
    seen = []
    original = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: seen.append(matrix) or original(matrix))
    components(images()), components(images()[:-1])
    assert torch.linalg.norm(seen[0] - seen[1]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("dimensions", [0, 17])
def test_more_components_than_pixels_are_refused(dimensions):
    with pytest.raises(ValueError, match=f"dimensions: expected 1 to 16, the number of pixels; got {dimensions}"):
        components(images(), dimensions)


def test_every_image_counts_where_they_are_more_than_are_taken_at_once():
    many = images(10_007)
    many[:10_000, :, :2], many[10_000:, :, 2:] = 0, 0
    rows = torch.nn.functional.normalize(as_input(many).flatten(1).double(), dim=1)
    _, _, expected = torch.linalg.svd(rows, full_matrices=False)
    found = (components(many, 16).double() @ expected.T).abs()
    assert torch.allclose(found, torch.eye(16, dtype=torch.float64), atol=1e-5)
