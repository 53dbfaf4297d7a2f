// The experts of each token: those with the largest scores plus biases, best first, lower index
// first among equals. A workgroup takes a token.
struct Params {
    count: u32,    // experts, at most MAX_EXPERTS
    used: u32,     // of a token
    sigmoid: u32,  // scores are 0: the softmax of the logits; 1: σ of each
    biased: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;          // [m, count]
@group(0) @binding(1) var<storage, read> bias: array<f32>;            // [count]
@group(0) @binding(2) var<storage, read> counts: array<u32>;          // [1] m
@group(0) @binding(3) var<storage, read_write> chosen: array<u32>;    // [m, used]
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;    // [m, used]
@group(0) @binding(5) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const MAX_EXPERTS: u32 = 512u;

// For each expert: its score before the softmax's sum, and the key that orders it. Shared, so that
// no two threads see the same key differently.
var<workgroup> parts: array<f32, MAX_EXPERTS>;
var<workgroup> keys: array<u32, MAX_EXPERTS>;

// Larger for a larger number, and largest for NaN.
fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0xffffffffu;
    }
    return select(bits | 0x80000000u, ~bits, bits >> 31u == 1u);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let token = group.y * groups.x + group.x;
    if (token >= counts[0]) {
        return;
    }
    let at = token * params.count;
    var most = logits[at];
    for (var i = 1u; i < params.count; i++) {
        most = max(most, logits[at + i]);
    }
    for (var i = local; i < params.count; i += WORKGROUP) {
        let x = logits[at + i];
        if (params.sigmoid == 1u) {
            // exp overflows beyond 88; there the sigmoid is 0 in f32 anyway.
            parts[i] = 1.0 / (1.0 + exp(-max(x, -80.0)));
        } else {
            parts[i] = exp(x - most);
        }
    }
    workgroupBarrier();
    var sum = 1.0;
    if (params.sigmoid == 0u) {
        sum = 0.0;
        for (var i = 0u; i < params.count; i++) {
            sum += parts[i];
        }
    }
    for (var i = local; i < params.count; i += WORKGROUP) {
        var key = parts[i] / sum;
        if (params.biased == 1u) {
            key += bias[i];
        }
        keys[i] = key_of(key);
    }
    workgroupBarrier();
    for (var i = local; i < params.count; i += WORKGROUP) {
        var rank = 0u;
        for (var j = 0u; j < params.count; j++) {
            rank += u32(keys[j] > keys[i] || (keys[j] == keys[i] && j < i));
        }
        if (rank < params.used) {
            chosen[token * params.used + rank] = i;
            scores[token * params.used + rank] = parts[i] / sum;
        }
    }
}
