// The short convolution before a recurrence with its SiLU; the delta rule then scales queries and
// keys to length one. An item is one head of one token: of a query, a key or a value. A token sees
// the tokens of its run in this pass, and before them the state where its run begins.
struct Params {
    key_heads: u32,
    value_heads: u32,
    key_width: u32,    // numbers of a query or key head
    value_width: u32,
    taps: u32,         // tokens that one sees, itself included
    row: u32,          // numbers of a token in projected
    state: u32,        // numbers of a state
    tiled: u32,
    queries: u32,      // offset of the queries among a token's channels
    keys: u32,
    values: u32,
    delta: u32,        // 1: the delta rule; 0: a state space
    biased: u32,
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
}

// [tokens, row], of which queries, keys and values
@group(0) @binding(0) var<storage, read> projected: array<f32>;
// [slots, state], of which [taps - 1, channels]
@group(0) @binding(1) var<storage, read> states: array<f32>;
// tokens of the run before, slot it begins from
@group(0) @binding(2) var<storage, read> steps: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> taps: array<f32>;  // [channels, taps], the oldest first
@group(0) @binding(4) var<storage, read> bias: array<f32>;          // [channels]
@group(0) @binding(5) var<storage, read_write> mixed: array<f32>;   // [tokens, channels]
@group(0) @binding(6) var<uniform> params: Params;

const NO_SLOT: u32 = 0xffffffffu;

fn seen(token: u32, step: vec2<u32>, channels: u32, back: u32, channel: u32) -> f32 {
    if (back <= step.x) {
        return projected[(token - back) * params.row + channel];
    }
    if (step.y == NO_SLOT) {
        return 0.0;
    }
    let input = params.taps - 1u - (back - step.x);
    return states[step.y * params.state + input * channels + channel];
}

fn make(at: vec3<u32>, across: u32, local: u32) {
    let which = at.x;
    let token = at.y;
    let heads = params.key_heads;
    if (which >= 2u * heads + params.value_heads) {
        return;
    }
    let channels = 2u * heads * params.key_width + params.value_heads * params.value_width;
    let is_value = which >= 2u * heads;
    let is_query = which < heads;
    var first = params.queries + which * params.key_width;
    var width = params.key_width;
    if (is_value) {
        first = params.values + (which - 2u * heads) * params.value_width;
        width = params.value_width;
    } else if (!is_query) {
        first = params.keys + (which - heads) * params.key_width;
    }
    let step = steps[token];
    let base = token * channels + first;
    var squares = 0.0;
    for (var i = local; i < width; i += THREADS) {
        var sum = 0.0;
        if (params.biased == 1u) {
            sum = bias[first + i];
        }
        for (var tap = 0u; tap < params.taps; tap++) {
            let back = params.taps - 1u - tap;
            sum += taps[(first + i) * params.taps + tap] * seen(token, step, channels, back, first + i);
        }
        // exp overflows beyond 88; there the sigmoid is 0 in f32 anyway.
        let v = sum / (1.0 + exp(-max(sum, -80.0)));
        squares += v * v;
        mixed[base + i] = v;
    }
    var factor = inverseSqrt(sum_of_all(squares, local) + 1e-6);
    if (is_value || params.delta == 0u) {
        return;
    }
    if (is_query) {
        factor *= inverseSqrt(f32(params.key_width));
    }
    for (var i = local; i < width; i += THREADS) {
        mixed[base + i] *= factor;
    }
}
