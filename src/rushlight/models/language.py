"""Language models. Names of parameters are those of the transformers package."""
from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


class Conv1D(nn.Module):
    """A linear layer whose weight is stored [inputs, outputs], as GPT-2's checkpoints have it."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(rl.empty(inputs, outputs).normal_(std=0.02)), nn.Parameter(rl.zeros(outputs))

    def forward(self, x): return F.linear(x, self.weight.t(), self.bias)
    def extra_repr(self): return f"outputs={self.weight.shape[1]}, inputs={self.weight.shape[0]}"


class GPT2Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn, self.c_proj = Conv1D(3 * width, width), Conv1D(width, width)

    def forward(self, x, past=None):
        b, t, width = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, 2))
        seen = None
        if past is not None:
            k, v = rl.cat([past[0], k], 2), rl.cat([past[1], v], 2)
            if t > 1: seen = rl.ones(t, k.shape[2], dtype=rl.bool).tril(k.shape[2] - t)          # several new tokens: each sees what was kept and those before it
        y = F.scaled_dot_product_attention(q, k, v, seen, is_causal=past is None, dropout_p=self.dropout if self.training else 0.0)
        return F.dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, width)), self.dropout, self.training), (k, v)


class GPT2MLP(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.c_fc, self.c_proj, self.dropout = Conv1D(4 * width, width), Conv1D(width, 4 * width), nn.Dropout(dropout)

    def forward(self, x): return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class GPT2Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(width), GPT2Attention(width, heads, dropout), nn.LayerNorm(width), GPT2MLP(width, dropout)

    def forward(self, x, past=None):
        y, present = self.attn(self.ln_1(x), past)
        x = x + y
        return x + self.mlp(self.ln_2(x)), present


class GPT2(nn.Module):
    """GPT-2 (Radford et al. 2019) with its language-model head."""

    def __init__(self, vocabulary=50257, context=1024, width=768, layers=12, heads=12, dropout=0.1):
        super().__init__()
        if width % heads: raise ValueError(f"a width of {width} does not divide into {heads} heads")
        self.context = context
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(context, width), drop=nn.Dropout(dropout),
                                              h=nn.ModuleList(GPT2Block(width, heads, dropout) for _ in range(layers)), ln_f=nn.LayerNorm(width)))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        for e in (self.transformer.wte, self.transformer.wpe): nn.init.normal_(e.weight, std=0.02)

    def forward(self, ids, targets=None, past=None):
        """Logits; with targets (logits, loss); with `past` (a list, empty at first) keys and values are kept and one step costs one token."""
        if ids.ndim != 2: raise ValueError(f"token ids must be [batch, time], got shape {list(ids.shape)}")
        start = past[0][0].shape[2] if past else 0
        if start + ids.shape[1] > self.context: raise ValueError(f"{start + ids.shape[1]} tokens do not fit in a context of {self.context}")
        t = self.transformer
        x = t.drop(t.wte(ids) + t.wpe(rl.arange(start, start + ids.shape[1])))
        for i, block in enumerate(t.h):
            x, present = block(x, past[i] if start else None)
            if past is not None:
                if start: past[i] = present
                else: past.append(present)
        logits = self.lm_head(t.ln_f(x))
        return logits if targets is None else (logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1))

    @rl.no_grad()
    def generate(self, ids, count, temperature=1.0, top_k=None):
        """`count` more tokens after ids [batch, time], one at a time with kept keys and values. temperature 0: the likeliest token."""
        past: list = []
        step = ids
        for _ in range(count):
            logits = self(step, past=past)[:, -1]
            if temperature == 0: step = logits.argmax(-1, keepdim=True)
            else:
                logits = logits / temperature
                if top_k is not None: logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -float("inf"))
                step = rl.multinomial(logits.softmax(-1), 1)
            ids = rl.cat([ids, step], 1)
        return ids


# ------------------------------------------------------------------------------------------------------------------- BERT
class BertEmbeddings(nn.Module):
    def __init__(self, vocabulary, context, width, dropout):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(context, width)
        self.token_type_embeddings, self.LayerNorm, self.dropout = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)

    def forward(self, ids, types=None):
        types = rl.zeros_like(ids) if types is None else types
        x = self.word_embeddings(ids) + self.token_type_embeddings(types) + self.position_embeddings(rl.arange(ids.shape[1]))
        return self.dropout(self.LayerNorm(x))


class BertSelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, mask):
        b, t, width = x.shape
        q, k, v = (layer(x).view(b, t, self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))
        return F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0).transpose(1, 2).reshape(b, t, width)


class BertOutput(nn.Module):
    def __init__(self, inputs, width, dropout):
        super().__init__()
        self.dense, self.LayerNorm, self.dropout = nn.Linear(inputs, width), nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)

    def forward(self, x, residual): return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class BertLayer(nn.Module):
    def __init__(self, width, heads, hidden, dropout):
        super().__init__()
        self.attention = nn.ModuleDict({"self": BertSelfAttention(width, heads, dropout), "output": BertOutput(width, width, dropout)})
        self.intermediate, self.output = nn.ModuleDict({"dense": nn.Linear(width, hidden)}), BertOutput(hidden, width, dropout)

    def forward(self, x, mask):
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class BertModel(nn.Module):
    """BERT (Devlin et al. 2018): (states of all tokens, pooled state of the first)."""

    def __init__(self, vocabulary=30522, context=512, width=768, layers=12, heads=12, hidden=3072, dropout=0.1):
        super().__init__()
        if width % heads: raise ValueError(f"a width of {width} does not divide into {heads} heads")
        self.context = context
        self.embeddings = BertEmbeddings(vocabulary, context, width, dropout)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(width, heads, hidden, dropout) for _ in range(layers))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)): nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear): nn.init.zeros_(m.bias)

    def forward(self, ids, attention_mask=None, token_type_ids=None):
        if ids.ndim != 2: raise ValueError(f"token ids must be [batch, time], got shape {list(ids.shape)}")
        if ids.shape[1] > self.context: raise ValueError(f"{ids.shape[1]} tokens do not fit in a context of {self.context}")
        mask = None if attention_mask is None else attention_mask[:, None, None, :].to(rl.bool)
        x = self.embeddings(ids, token_type_ids)
        for layer in self.encoder["layer"]: x = layer(x, mask)
        return x, self.pooler["dense"](x[:, 0]).tanh()


class LSTMTagger(nn.Module):
    """A tag for each word: embedding, bidirectional LSTM, linear. Sentences [batch, time] are padded; lengths say how far each goes."""

    def __init__(self, vocabulary, tags, width=128, hidden=128, layers=1, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, words, lengths=None):
        x = self.embedding(words)
        if lengths is None: return self.tags(self.lstm(x)[0])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.shape[1])
        return self.tags(out)
