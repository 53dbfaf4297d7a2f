// The raw logit of a target and the log-sum-exp of its row, from the tiles' results of
// `score_head`. One workgroup for each row.
struct Params {
    tiles: u32,
    vocabulary: u32,
    nan: u32,  // the bits of NaN, which no shader can write as a constant
    spare: u32,
}

@group(0) @binding(0) var<storage, read> partials: array<f32>;         // [m, 2 tiles + 1]
@group(0) @binding(1) var<storage, read> targets: array<u32>;          // [m]
@group(0) @binding(2) var<storage, read> counts: array<u32>;           // [1] m
@group(0) @binding(3) var<storage, read_write> out: array<vec2<f32>>;  // [m] logit, log-sum-exp
@group(0) @binding(4) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const LOWEST: f32 = -3.0e38;
const BROKEN: f32 = 3.3e38;  // as in `score_head`

var<workgroup> parts: array<vec2<f32>, 64>;

fn joined(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let top = max(a.x, b.x);
    return vec2<f32>(top, a.y * exp(a.x - top) + b.y * exp(b.x - top));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = group.y * groups.x + group.x;
    if (row >= counts[0]) {
        return;
    }
    let base = row * (2u * params.tiles + 1u);
    var part = vec2<f32>(LOWEST, 0.0);
    for (var i = local; i < params.tiles; i += WORKGROUP) {
        part = joined(part, vec2<f32>(partials[base + 2u * i], partials[base + 2u * i + 1u]));
    }
    parts[local] = part;
    workgroupBarrier();
    if (local == 0u) {
        for (var i = 1u; i < WORKGROUP; i++) {
            part = joined(part, parts[i]);
        }
        var logit = LOWEST;
        if (targets[row] < params.vocabulary) {
            logit = partials[base + 2u * params.tiles];
        }
        if (part.x >= BROKEN) {
            let nan = bitcast<f32>(params.nan);
            out[row] = vec2<f32>(nan, nan);
        } else {
            out[row] = vec2<f32>(logit, part.x + log(part.y));
        }
    }
}
