"""Layers of the papers.  NoisyLinear, NoisyConv2d and MaxPool2d are drop-in twins of torch's: same arguments, same
``state_dict``; NoisyLSTM loads that of ``nn.LSTM``."""

from lib.layers.max_pool2d import MaxPool2d as MaxPool2d
from lib.layers.noised_batch_norm import NoisedBatchNorm as NoisedBatchNorm
from lib.layers.noisy_conv2d import NoisyConv2d as NoisyConv2d
from lib.layers.noisy_linear import NoisyLinear as NoisyLinear
from lib.layers.noisy_lstm import NoisyLSTM as NoisyLSTM
from lib.layers.projection import Projection as Projection
from lib.layers.public_batch_norm import ChannelAffine as ChannelAffine
from lib.layers.public_batch_norm import PublicBatchNorm as PublicBatchNorm
from lib.layers.statistics import statistics_of as statistics_of
from lib.layers.weight_noise import held_noise as held_noise
from lib.layers.weight_noise import noisy_layers as noisy_layers
from lib.layers.weight_noise import noisy_parameters as noisy_parameters
from lib.layers.weight_noise import set_weight_noise as set_weight_noise
from lib.layers.weight_noise import without_noise as without_noise
from lib.layers.with_public import WithPublic as WithPublic
from lib.layers.with_public import held_statistics as held_statistics
