"""Networks over graphs."""
from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


class GCNConv(nn.Module):
    """One step of Kipf and Welling's graph convolution (2016): each node gets the normalised sum over itself and its neighbours. Edges are
    [2, count]: from, to."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin, self.bias = nn.Linear(inputs, outputs, bias=False), nn.Parameter(rl.zeros(outputs))
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, x, edges):
        loops = rl.arange(x.shape[0])
        source, target = rl.cat([edges[0], loops]), rl.cat([edges[1], loops])
        degree = rl.zeros(x.shape[0], dtype=x.dtype).index_add(0, target, rl.ones(target.shape[0], dtype=x.dtype))
        scale = degree.rsqrt()
        messages = self.lin(x).index_select(0, source) * (scale[source] * scale[target]).unsqueeze(1)
        return rl.zeros(x.shape[0], messages.shape[1], dtype=x.dtype).index_add(0, target, messages) + self.bias


class GCN(nn.Module):
    """Two graph convolutions: classes of nodes."""

    def __init__(self, inputs, hidden, classes, dropout=0.5):
        super().__init__()
        self.conv1, self.conv2, self.dropout = GCNConv(inputs, hidden), GCNConv(hidden, classes), dropout

    def forward(self, x, edges):
        x = F.dropout(x, self.dropout, self.training)
        x = F.dropout(F.relu(self.conv1(x, edges)), self.dropout, self.training)
        return self.conv2(x, edges)
