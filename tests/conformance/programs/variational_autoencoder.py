"""Reparameterisation, KL divergence, chunk of a joint head, sampling with a seed."""
import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, d=10, h=16, z=2):
        super().__init__()
        self.inner = nn.Linear(d, h)
        self.head = nn.Linear(h, 2 * z)
        self.out = nn.Sequential(nn.Linear(z, h), nn.LeakyReLU(0.2), nn.Linear(h, d))

    def forward(self, x):
        mu, logvar = self.head(F.relu(self.inner(x))).chunk(2, dim=-1)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        return self.out(z), mu, logvar


torch.manual_seed(7)
x = (torch.rand(40, 10) > 0.5).float()
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-2, betas=(0.8, 0.99))
for step in range(25):
    logits, mu, logvar = vae(x)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / x.shape[0]
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()
    loss = reconstruction + min(1.0, step / 10) * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"{step:3d} {loss.item():.5f} {reconstruction.item():.5f} {kl.item():.5f}")
with torch.inference_mode():
    samples = torch.sigmoid(vae.out(torch.randn(3, 2)))
    print(samples.requires_grad, samples.is_inference(), samples.mean(dim=0)[:4].tolist())
    print(torch.bernoulli(samples).sum().item())
