"""A small decoder-only transformer with Hugging Face parameter names.

One class for the three kinds: Llama, Qwen3 (norm on queries and keys) and Gemma
(norm weights offset by one, embeddings scaled by sqrt(hidden), tanh GELU). The state
dict loads into transformers' LlamaForCausalLM, Qwen3ForCausalLM, GemmaForCausalLM.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    """RMSNorm in f32; `offset` is 1 for Gemma, whose weights are stored minus one."""

    def __init__(self, width, epsilon, offset):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width) if offset else torch.ones(width))
        self.epsilon, self.offset = epsilon, float(offset)

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (y * (self.weight + self.offset)).to(x.dtype)


def rotate(x, cos, sin):
    """Rotary embedding on the halves of each head: x [batch, heads, tokens, head_dim]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = m.heads, m.kv_heads, m.head_dim
        self.q_proj = nn.Linear(m.hidden, m.heads * m.head_dim, bias=False)
        self.k_proj = nn.Linear(m.hidden, m.kv_heads * m.head_dim, bias=False)
        self.v_proj = nn.Linear(m.hidden, m.kv_heads * m.head_dim, bias=False)
        self.o_proj = nn.Linear(m.heads * m.head_dim, m.hidden, bias=False)
        self.normed = m.architecture == "qwen3"
        if self.normed:
            self.q_norm = Norm(m.head_dim, m.epsilon, False)
            self.k_norm = Norm(m.head_dim, m.epsilon, False)

    def forward(self, x, cos, sin, mask, cache=None, at=None):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.heads, self.head_dim)
        k = self.k_proj(x).view(b, t, self.kv_heads, self.head_dim)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        if self.normed:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q.transpose(1, 2), cos, sin).to(v.dtype), rotate(k.transpose(1, 2), cos, sin).to(v.dtype)
        if cache is not None:
            rows = torch.arange(b)[:, None]
            cache[0][rows, :, at] = k.transpose(1, 2)
            cache[1][rows, :, at] = v.transpose(1, 2)
            k, v = cache
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        # Spelled out: compiled for rows this short it trains twice as fast as
        # scaled_dot_product_attention on a CPU (0.28 s against 0.66 s backward).
        weight = (q @ k.transpose(-1, -2)).float() * self.head_dim ** -0.5
        y = weight.masked_fill(~mask, -1e9).softmax(-1).to(v.dtype) @ v
        return self.o_proj(y.transpose(1, 2).reshape(b, t, self.heads * self.head_dim))


class Mlp(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.gate_proj = nn.Linear(m.hidden, m.ffn, bias=False)
        self.up_proj = nn.Linear(m.hidden, m.ffn, bias=False)
        self.down_proj = nn.Linear(m.ffn, m.hidden, bias=False)
        self.gelu = m.architecture == "gemma"

    def forward(self, x):
        gate = self.gate_proj(x)
        gate = F.gelu(gate, approximate="tanh") if self.gelu else F.silu(gate)
        return self.down_proj(gate * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, m):
        super().__init__()
        offset = m.architecture == "gemma"
        self.self_attn, self.mlp = Attention(m), Mlp(m)
        self.input_layernorm = Norm(m.hidden, m.epsilon, offset)
        self.post_attention_layernorm = Norm(m.hidden, m.epsilon, offset)

    def forward(self, x, cos, sin, mask, cache=None, at=None):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, cache, at)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.embed_tokens = nn.Embedding(m.vocabulary, m.hidden)
        self.layers = nn.ModuleList(Layer(m) for _ in range(m.layers))
        self.norm = Norm(m.hidden, m.epsilon, m.architecture == "gemma")
        self.scale = math.sqrt(m.hidden) if m.architecture == "gemma" else 1.0
        rate = m.rope_theta ** (-torch.arange(0, m.head_dim, 2).float() / m.head_dim)
        angle = torch.arange(m.context).float()[:, None] * rate[None, :]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, positions, mask, caches=None):
        """ids, positions [batch, tokens]; mask [batch, 1, tokens, keys]; final states [batch, tokens, hidden]."""
        x = self.embed_tokens(ids) * self.scale
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        for number, layer in enumerate(self.layers):
            cache = caches[number] if caches is not None else None
            x = layer(x, cos, sin, mask, cache, positions)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.member = m
        self.model = Trunk(m)
        self.lm_head = nn.Linear(m.hidden, m.vocabulary, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
                if m.tied and "embed" in name:
                    std = 0.5 * m.hidden ** -0.5
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    std /= math.sqrt(2 * m.layers)
                nn.init.normal_(weight, std=std)
        if m.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    @torch.no_grad()
    def generate(self, prompts, end, limit):
        """Greedy continuations of token-id prompts, until `end` or `limit` new tokens."""
        m = self.member
        b, width = len(prompts), max(map(len, prompts))
        room = width + limit
        lengths = torch.tensor([len(p) for p in prompts])
        ids = torch.zeros(b, width, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, :len(prompt)] = torch.tensor(prompt)
        caches = [[torch.zeros(b, m.kv_heads, room, m.head_dim) for _ in range(2)] for _ in range(m.layers)]
        positions = torch.arange(width).expand(b, width)
        keys = torch.arange(room)
        states = self.model(ids, positions, keys[None, None, None] <= positions[:, None, :, None], caches)
        state = states[torch.arange(b), lengths - 1]
        out, open_rows, at = [[] for _ in prompts], [True] * b, lengths.clone()
        for _ in range(limit):
            token = self.lm_head(state).argmax(-1)
            for row, choice in enumerate(token.tolist()):
                if open_rows[row]:
                    open_rows[row] = choice != end
                    if open_rows[row]:
                        out[row].append(choice)
            if not any(open_rows):
                break
            mask = keys[None, None, None] <= at[:, None, None, None]
            state = self.model(token[:, None], at[:, None], mask, caches)[:, 0]
            at = at + 1
        return out
