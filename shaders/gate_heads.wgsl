// Gated heads, with a norm of each if given: norm(x) * curve(gate), or norm(x * curve(gate)). An
// item is one head of one token. Gates lie in rows of their own, beside other data.
struct Params {
    heads: u32,
    width: u32,        // numbers of a head
    row: u32,          // numbers of a token in x
    first: u32,        // offset of its heads
    gate_row: u32,     // numbers of a token in gates
    gate_first: u32,   // offset of the first gate
    gate_apart: u32,   // numbers from one gate to the next
    norm: u32,         // 0: none; 1: before the gate; 2: after it
    silu: u32,         // 1: gate * sigmoid(gate); 0: sigmoid(gate)
    epsilon: f32,
    norm_apart: u32,   // numbers from a head's weight of the norm to the next head's
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;             // [tokens, row]
@group(0) @binding(1) var<storage, read> gates: array<f32>;         // [tokens, gate_row]
@group(0) @binding(2) var<storage, read> weight: array<f32>;  // [width], of all heads or of each
@group(0) @binding(3) var<storage, read_write> out: array<f32>;     // [tokens, heads, width]
@group(0) @binding(4) var<uniform> params: Params;

fn curve(gate: f32) -> f32 {
    // exp overflows beyond 88; there the sigmoid is 0 in f32 anyway.
    let sigmoid = 1.0 / (1.0 + exp(-max(gate, -80.0)));
    return select(sigmoid, gate * sigmoid, params.silu == 1u);
}

fn make(at: vec3<u32>, across: u32, local: u32) {
    let head = at.x;
    let width = params.width;
    if (head >= params.heads) {
        return;
    }
    let base = at.y * params.row + params.first + head * width;
    let gate = at.y * params.gate_row + params.gate_first + head * params.gate_apart;
    var sum = 0.0;
    if (params.norm > 0u) {
        for (var i = local; i < width; i += THREADS) {
            var v = x[base + i];
            if (params.norm == 2u) {
                v *= curve(gates[gate + i]);
            }
            sum += v * v;
        }
    }
    let factor = inverseSqrt(sum_of_all(sum, local) / f32(width) + params.epsilon);
    for (var i = local; i < width; i += THREADS) {
        var v = x[base + i] * curve(gates[gate + i]);
        if (params.norm > 0u) {
            v *= factor * weight[head * params.norm_apart + i];
        }
        out[(at.y * params.heads + head) * width + i] = v;
    }
}
