// The update rule of a value head's memory S by the tokens of a run, each with query q, key k,
// value v, share b and decay a. The gated delta rule (Qwen3.5): S becomes a * S + k (x) b * (v - a
// * S'k), and the output is S'q. A state space (Mamba-2): a * S + k (x) b * v, and S'q + d * v. An
// item is some columns of S of one run, from one state to another, or in place. Columns are
// independent: each thread has one, without waiting. A head's output replaces its values.
struct Params {
    key_heads: u32,
    value_heads: u32,
    key_width: u32,    // numbers of a query or key head
    value_width: u32,
    taps: u32,         // tokens that the convolution sees
    row: u32,          // numbers of a token in projected
    state: u32,        // numbers of a state
    tiled: u32,        // 1: key heads are those of value heads in turn; 0: of neighbours
    queries: u32,      // offset of the queries among a token's channels
    keys: u32,
    values: u32,
    delta: u32,        // 1: the delta rule; 0: a state space
    biased: u32,
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
}

@group(0) @binding(0) var<storage, read_write> mixed: array<f32>;    // [tokens, channels]
@group(0) @binding(1) var<storage, read> projected: array<f32>;      // [tokens, row]
// first token, how many, slots from and to
@group(0) @binding(2) var<storage, read> runs: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;           // [value_heads], of the decay
@group(0) @binding(4) var<storage, read> rate: array<f32>;           // [value_heads]
@group(0) @binding(5) var<storage, read> skip: array<f32>;  // [value_heads], of a state space
@group(0) @binding(6) var<storage, read_write> states: array<f32>;   // [slots, state]
@group(0) @binding(7) var<uniform> params: Params;

const NO_SLOT: u32 = 0xffffffffu;

fn make(at: vec3<u32>, across: u32, local: u32) {
    let width = params.value_width;
    let parts = (width + THREADS - 1u) / THREADS;
    let head = at.x / parts;
    if (head >= params.value_heads) {
        return;
    }
    let v = at.x % parts * THREADS + local;
    let run = runs[at.y];
    let all_values = params.value_heads * width;
    let channels = 2u * params.key_heads * params.key_width + all_values;
    let inputs = (params.taps - 1u) * channels;
    let of_key = select(head / (params.value_heads / params.key_heads), head % params.key_heads, params.tiled == 1u);
    let memory = inputs + head * params.key_width * width;
    // After the channels lie the output's gate, the input of b by the delta rule, and the input of
    // a.
    let of_share = channels + all_values + head;
    let of_decay = of_share + params.delta * params.value_heads;

    if (v < width) {
        var begin = run.z;
        for (var i = 0u; i < run.y; i++) {
            let token = run.x + i;
            let x = projected[token * params.row + of_decay] + bias[head];
            // For a large number the softplus equals it, and its exponential overflows.
            let softplus = select(log(1.0 + exp(min(x, 20.0))), x, x > 20.0);
            let decay = exp(max(rate[head] * softplus, -80.0));
            let query = token * channels + params.queries + of_key * params.key_width;
            let key = token * channels + params.keys + of_key * params.key_width;
            let value = token * channels + params.values + head * width + v;
            let before = begin * params.state + memory + v;
            let after = run.w * params.state + memory + v;
            let empty = begin == NO_SLOT;
            var change = softplus * mixed[value];
            var out = 0.0;
            if (params.delta == 1u) {
                var found = 0.0;
                if (!empty) {
                    for (var k = 0u; k < params.key_width; k++) {
                        found += states[before + k * width] * mixed[key + k];
                    }
                }
                let share = 1.0 / (1.0 + exp(-max(projected[token * params.row + of_share], -80.0)));
                change = share * (mixed[value] - decay * found);
            } else {
                out = skip[head] * mixed[value];
            }
            for (var k = 0u; k < params.key_width; k++) {
                var number = mixed[key + k] * change;
                if (!empty) {
                    number += decay * states[before + k * width];
                }
                states[after + k * width] = number;
                out += number * mixed[query + k];
            }
            mixed[value] = out;
            begin = run.w;
        }
    }
    // The convolution's last inputs: each thread moves some channels; in place, the older first.
    let all = params.value_heads * parts * THREADS;
    for (var c = at.x * THREADS + local; c < channels; c += all) {
        for (var i = 0u; i < params.taps - 1u; i++) {
            let at = i + run.y;
            var input = 0.0;
            if (at >= params.taps - 1u) {
                input = projected[(run.x + at - (params.taps - 1u)) * params.row + c];
            } else if (run.z != NO_SLOT) {
                input = states[run.z * params.state + at * channels + c];
            }
            states[run.w * params.state + i * channels + c] = input;
        }
    }
}
