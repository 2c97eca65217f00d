"""A character-level MLP language model with an embedding and tied weights; sampling by multinomial and greedy."""
import torch
import torch.nn as nn
import torch.nn.functional as F

text = "the quick brown fox jumps over the lazy dog. "
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
itos = {i: c for c, i in stoi.items()}
ids = torch.tensor([stoi[c] for c in text])
context = 4
X = torch.stack([ids[i : i + context] for i in range(len(ids) - context)])
Y = ids[context:]


class CharMLP(nn.Module):
    def __init__(self, vocab, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(context * dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        e = self.embed(x)
        return self.head(self.norm(torch.tanh(self.mix(e.view(e.size(0), -1)))))


torch.manual_seed(42)
model = CharMLP(len(chars))
print(model)
print(len(list(model.parameters())), len(model.state_dict()), model.head.weight is model.embed.weight)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
for step in range(40):
    rows = torch.randint(0, len(X), (16,))
    loss = F.cross_entropy(model(X[rows]), Y[rows], label_smoothing=0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
with torch.no_grad():
    window, out = X[:1].clone(), []
    for _ in range(20):
        probability = F.softmax(model(window)[0] / 0.9, dim=-1)
        nxt = probability.argmax(-1, keepdim=True)
        out.append(itos[nxt.item()])
        window = torch.cat([window[:, 1:], nxt.unsqueeze(0)], dim=1)
    print("".join(out))
print("perplexity", F.cross_entropy(model(X), Y).exp().item())
