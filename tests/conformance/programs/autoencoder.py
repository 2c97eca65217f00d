"""An autoencoder with encoder and decoder as attributes, trained with AdamW."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 12), nn.GELU(), nn.Linear(12, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 12), nn.SiLU(), nn.Linear(12, 20), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x.flatten(1))).view_as(x)


torch.manual_seed(0)
images = torch.rand(32, 4, 5)
model = AutoEncoder()
print(model)
print(sum(p.numel() for p in model.parameters() if p.requires_grad))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
for step in range(30):
    order = torch.randperm(len(images))[:16]
    batch = images[order]
    noisy = (batch + 0.1 * torch.randn_like(batch)).clamp(0, 1)
    loss = F.mse_loss(model(noisy), batch) + 1e-3 * model.encoder(batch.flatten(1)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step, loss.item())
bce = F.binary_cross_entropy(model(images), images)
print(bce.item(), model(images).std().item())
