// Heads behind their gates, and behind a norm of each where there is one: norm(x) * curve(gate). An item is
// one head of one token. Gates lie in rows of their own, beside other things.
struct Params {
    heads: u32,
    width: u32,        // numbers of a head
    row: u32,          // numbers of a token in x
    first: u32,        // where its heads begin
    gate_row: u32,     // numbers of a token in gates
    gate_first: u32,   // where the first gate begins
    gate_apart: u32,   // numbers from one gate to the next
    normed: u32,
    silu: u32,         // 1: gate * sigmoid(gate); 0: sigmoid(gate)
    epsilon: f32,
    spare_a: u32,
    spare_b: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;             // [tokens, row]
@group(0) @binding(1) var<storage, read> gates: array<f32>;         // [tokens, gate_row]
@group(0) @binding(2) var<storage, read> weight: array<f32>;        // [width]
@group(0) @binding(3) var<storage, read_write> out: array<f32>;     // [tokens, heads, width]
@group(0) @binding(4) var<uniform> params: Params;

fn make(at: vec3<u32>, across: u32, local: u32) {
    let head = at.x;
    let width = params.width;
    if (head >= params.heads) {
        return;
    }
    let base = at.y * params.row + params.first + head * width;
    let gate = at.y * params.gate_row + params.gate_first + head * params.gate_apart;
    var sum = 0.0;
    if (params.normed == 1u) {
        for (var i = local; i < width; i += THREADS) {
            sum += x[base + i] * x[base + i];
        }
    }
    let factor = inverseSqrt(sum_of_all(sum, local) / f32(width) + params.epsilon);
    for (var i = local; i < width; i += THREADS) {
        var v = x[base + i];
        if (params.normed == 1u) {
            v *= factor * weight[i];
        }
        let g = gates[gate + i];
        // exp overflows beyond 88; there the sigmoid is 0 in f32 anyway.
        v /= 1.0 + exp(-max(g, -80.0));
        if (params.silu == 1u) {
            v *= g;
        }
        out[(at.y * params.heads + head) * width + i] = v;
    }
}
