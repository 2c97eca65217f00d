"""A GAN's alternating updates with detach and two optimizers."""
import torch
from torch import nn

torch.manual_seed(5)
G = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(16, 1))
optG = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for step in range(20):
    real = torch.randn(32, 2) * 0.5 + torch.tensor([1.0, -1.0])
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
    fake = G(torch.randn(32, 4))
    loss_d = criterion(D(real), ones * 0.9) + criterion(D(fake.detach()), zeros)
    optD.zero_grad()
    loss_d.backward()
    optD.step()
    loss_g = criterion(D(fake), ones)
    optG.zero_grad()
    loss_g.backward()
    optG.step()
    if step % 5 == 0:
        print(step, loss_d.item(), loss_g.item())
print(fake.mean(0).tolist(), fake.var(0, unbiased=False).tolist())
