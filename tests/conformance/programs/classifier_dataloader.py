"""An MLP classifier fed by a shuffled DataLoader, accuracy by argmax and by topk-free masks."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Blobs(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(3)
        self.label = torch.randint(0, 3, (n,), generator=generator)
        self.point = torch.randn(n, 2, generator=generator) + self.label.unsqueeze(1).float() * 2

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.point[i], self.label[i]


torch.manual_seed(1)
data = Blobs(120)
train, test = random_split(data, [90, 30])
loader = DataLoader(train, batch_size=16, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
print(model)
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    total, seen = 0.0, 0
    for points, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(points), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(points)
        seen += points.size(0)
    print(epoch, total / seen, len(loader))
model.eval()
correct = 0
with torch.no_grad():
    for points, labels in DataLoader(test, batch_size=7):
        correct += (model(points).argmax(dim=1) == labels).sum().item()
print("correct", correct, "of", len(test))
for i, (points, labels) in enumerate(DataLoader(TensorDataset(data.point, data.label), batch_size=50)):
    print(i, points.shape, labels.dtype, labels[:10])
print(next(iter(DataLoader([{"a": 1, "b": 2.5}, {"a": 3, "b": 4.5}], batch_size=2))))
print(next(iter(DataLoader(list(range(10)), batch_size=4, collate_fn=lambda items: torch.tensor(items) * 2))))
