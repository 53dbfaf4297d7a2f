// The raw logit of a target id and the log-sum-exp of its row of logits; their
// difference is the id's log-probability. One workgroup a row.
struct Params {
    rows: u32,
    vocabulary: u32,
    softcap: f32,  // logits become softcap · tanh(logit / softcap); 0: off
    spare: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;             // [rows, vocabulary]
@group(0) @binding(1) var<storage, read> targets: array<u32>;            // [rows]
@group(0) @binding(2) var<storage, read_write> out: array<vec2<f32>>;    // [rows] logit, log-sum-exp
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 256u;
const LOWEST: f32 = -3.0e38;

var<workgroup> tops: array<f32, 256>;
var<workgroup> sums: array<f32, 256>;

fn capped(logit: f32) -> f32 {
    if (params.softcap > 0.0) {
        // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
        return params.softcap * tanh(clamp(logit / params.softcap, -10.0, 10.0));
    }
    return logit;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = group.y * groups.x + group.x;
    if (row >= params.rows) {
        return;
    }
    let base = row * params.vocabulary;
    var top = LOWEST;
    for (var i = local; i < params.vocabulary; i += WORKGROUP) {
        top = max(top, logits[base + i]);
    }
    tops[local] = top;
    workgroupBarrier();
    if (local < 16u) {
        for (var i = 1u; i < 16u; i++) {
            top = max(top, tops[local + i * 16u]);
        }
        tops[local] = top;
    }
    workgroupBarrier();
    for (var i = 0u; i < 16u; i++) {
        top = max(top, tops[i]);
    }
    top = capped(top);  // The largest stays the largest.
    var sum = 0.0;
    for (var i = local; i < params.vocabulary; i += WORKGROUP) {
        sum += exp(capped(logits[base + i]) - top);
    }
    sums[local] = sum;
    workgroupBarrier();
    if (local < 16u) {
        for (var i = 1u; i < 16u; i++) {
            sum += sums[local + i * 16u];
        }
        sums[local] = sum;
    }
    workgroupBarrier();
    if (local == 0u) {
        for (var i = 1u; i < 16u; i++) {
            sum += sums[i];
        }
        let id = targets[row];
        var logit = LOWEST;
        if (id < params.vocabulary) {
            logit = capped(logits[base + id]);
        }
        out[row] = vec2<f32>(logit, top + log(sum));
    }
}
