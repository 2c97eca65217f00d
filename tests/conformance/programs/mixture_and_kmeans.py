"""k-means and EM for a Gaussian mixture by broadcasting; power iteration; Newton's method; gradient of a simulation."""
import torch

torch.manual_seed(0)
points = torch.cat([torch.randn(30, 2) * 0.3 + torch.tensor(c) for c in ([0.0, 0.0], [3.0, 0.0], [0.0, 3.0])])
centres = points[torch.tensor([0, 30, 60])].clone()
for _ in range(5):
    label = (points[:, None] - centres).norm(dim=-1).argmin(1)
    centres = torch.stack([points[label == k].mean(0) for k in range(3)])
print(centres, torch.stack([(label == k).sum() for k in range(3)]))
means, log_weight, variance = centres + 0.5, torch.full((3,), -1.0986), torch.ones(3)
for _ in range(5):
    log_p = log_weight - ((points[:, None] - means) ** 2).sum(-1) / (2 * variance) - variance.log()
    responsibility = (log_p - log_p.logsumexp(1, keepdim=True)).exp()
    count = responsibility.sum(0)
    means = responsibility.T @ points / count[:, None]
    variance = (responsibility * ((points[:, None] - means) ** 2).sum(-1)).sum(0) / (2 * count)
    log_weight = (count / count.sum()).log()
print(means.tolist(), variance.tolist(), log_p.logsumexp(1).mean().item())
matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
v = torch.ones(2, dtype=torch.float64)
for _ in range(30):
    v = matrix @ v
    v /= v.norm()
print((v @ matrix @ v).item(), v.tolist())
x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
for _ in range(6):
    f = x.exp() - 3 * x**2
    (g,) = torch.autograd.grad(f, x)
    x = (x - f / g).detach().requires_grad_()
print(x.item())
angle = torch.tensor(0.6, requires_grad=True)
position, velocity = torch.zeros(2), 5 * torch.stack([angle.cos(), angle.sin()])
for _ in range(40):
    velocity = velocity + 0.01 * torch.tensor([0.0, -9.81])
    position = position + 0.01 * velocity
position[0].backward()
print(position, angle.grad)
pi = (torch.rand(20000, 2).pow(2).sum(1) < 1).double().mean() * 4
print(pi.item(), torch.linspace(0, 3.14159, 101).sin().mean() * 3.14159)
