"""Models that make images."""
from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


class VariationalAutoencoder(nn.Module):
    """A variational autoencoder (Kingma and Welling 2013) with one hidden layer on each side; pixels in [0, 1]."""

    def __init__(self, pixels=784, hidden=400, latent=20):
        super().__init__()
        self.pixels = pixels
        self.fc1, self.fc21, self.fc22 = nn.Linear(pixels, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, pixels)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def decode(self, z): return self.fc4(F.relu(self.fc3(z))).sigmoid()

    def forward(self, x):
        """(reconstruction, mean, log variance)."""
        mean, log_variance = self.encode(x.reshape(-1, self.pixels))
        z = mean + rl.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(z), mean, log_variance

    def loss(self, x):
        """The negative evidence lower bound of a batch, summed."""
        y, mean, log_variance = self(x)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return F.binary_cross_entropy(y, x.reshape(-1, self.pixels), reduction="sum") + divergence


def _initialised(model):
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)): nn.init.normal_(m.weight, 0.0, 0.02)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.weight, 1.0, 0.02)
            nn.init.zeros_(m.bias)


class DCGANGenerator(nn.Module):
    """Noise [batch, latent] (or [batch, latent, 1, 1]) to images of 64x64 in [-1, 1] (Radford et al. 2015)."""

    def __init__(self, latent=100, width=64, channels=3):
        super().__init__()
        layers, widths = [], (latent, width * 8, width * 4, width * 2, width)
        for i, (a, b) in enumerate(zip(widths, widths[1:])): layers += [nn.ConvTranspose2d(a, b, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(width, channels, 4, 2, 1, bias=False), nn.Tanh())
        _initialised(self)

    def forward(self, z): return self.main(z[:, :, None, None] if z.ndim == 2 else z)


class DCGANDiscriminator(nn.Module):
    """Images of 64x64 to the probability that they are real."""

    def __init__(self, width=64, channels=3):
        super().__init__()
        layers = [nn.Conv2d(channels, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
        for a in (width, width * 2, width * 4): layers += [nn.Conv2d(a, a * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(a * 2), nn.LeakyReLU(0.2, inplace=True)]
        self.main = nn.Sequential(*layers, nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid())
        _initialised(self)

    def forward(self, x): return self.main(x).view(-1)
