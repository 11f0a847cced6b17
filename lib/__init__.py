"""The library behind the notebooks: layers, methods, accountants, and the tables they fill.

Letters, used in every shape comment and einsum of the library:
B examples, M public examples, T tokens, C channels, H and W height and width, D features, K classes.

    >>> from lib import tables
    >>> table = tables.load("mnist_noise")
    >>> table.cell("BN-LeNet-5", 1.0, seed=0, tier="cpu", lr=0.1).weight_noise_std
    1.0

Importing this package trains nothing, downloads nothing and reads no data.
"""
