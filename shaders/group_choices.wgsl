// Groups the choices of a pass by expert, four to a group, for products of several rows at once.
// One workgroup computes all; a thread makes the groups of an expert.
struct Params {
    count: u32,  // experts, at most MAX_EXPERTS
    used: u32,   // of a token
    spare_a: u32,
    spare_b: u32,
}

@group(0) @binding(0) var<storage, read> chosen: array<u32>;                // [m, used]
@group(0) @binding(1) var<storage, read> counts: array<u32>;                // [1] m
@group(0) @binding(2) var<storage, read_write> groups: array<vec4<u32>>;    // numbers of choices
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const MAX_EXPERTS: u32 = 512u;
const NO_CHOICE: u32 = 0xffffffffu;

// Groups of each expert.
var<workgroup> needed: array<u32, MAX_EXPERTS>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
    let choices = counts[0] * params.used;
    for (var expert = local; expert < params.count; expert += WORKGROUP) {
        var found = 0u;
        for (var i = 0u; i < choices; i++) {
            found += u32(chosen[i] == expert);
        }
        needed[expert] = (found + 3u) / 4u;
    }
    workgroupBarrier();
    for (var expert = local; expert < params.count; expert += WORKGROUP) {
        var at = 0u;
        for (var before = 0u; before < expert; before++) {
            at += needed[before];
        }
        var four = vec4<u32>(NO_CHOICE);
        var filled = 0u;
        for (var i = 0u; i < choices; i++) {
            if (chosen[i] == expert) {
                four[filled] = i;
                filled++;
                if (filled == 4u) {
                    groups[at] = four;
                    at++;
                    four = vec4<u32>(NO_CHOICE);
                    filled = 0u;
                }
            }
        }
        if (filled > 0u) {
            groups[at] = four;
        }
    }
    var all = 0u;
    for (var expert = 0u; expert < params.count; expert++) {
        all += needed[expert];
    }
    // As many as possible: the launch for them finds the rest empty.
    let room = (choices + 3u * min(params.count, choices)) / 4u;
    for (var i = all + local; i < room; i += WORKGROUP) {
        groups[i] = vec4<u32>(NO_CHOICE);
    }
}
