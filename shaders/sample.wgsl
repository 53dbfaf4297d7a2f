// Draws the next token from a row of logits: temperature, min-p, top-k, top-p. One workgroup.
//
// All in integers, so that every adapter and the CPU draw the same token from the same logits and
// the same random number. A logit's *distance* from the largest, in 2⁻¹⁵ of a halving of its
// probability, decides its rank (ties: the lowest id first) and its weight; 32 halvings away the
// weight is zero; min-p is a shorter distance. A cut, by number (top-k) or by weight (top-p, the
// draw), is found by two histograms of 1024 bins: of distances, then within a bin of the first.
// Elements beyond the cut of top-p are left out of a list before the second.
struct Params {
    vocabulary: u32,
    steps: u32,     // draws there is room for
    greedy: u32,    // 1: the largest, whatever else is set
    top_k: u32,     // 0: all
    top_p: u32,     // in 2⁻³²; 0: all
    factor: f32,    // distances in one unit of a logit
    softcap: f32,   // logits become softcap · tanh(logit / softcap); 0: off
    far: u32,       // distance from which min-p leaves elements out; FAR: none
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;              // [vocabulary]
@group(0) @binding(1) var<storage, read> random: array<u32>;              // [steps] in 2⁻³²
@group(0) @binding(2) var<storage, read_write> kept: array<vec2<u32>>;  // [vocabulary] distance, id
@group(0) @binding(3) var<storage, read_write> drawn: array<u32>;         // [steps]
@group(0) @binding(4) var<storage, read_write> next: array<u32>;          // [2] id, draws so far
// [1] position, row, start, prefix
@group(0) @binding(5) var<storage, read_write> place: array<vec4<u32>>;
@group(0) @binding(6) var<uniform> params: Params;

const FAR: u32 = 1048576u;        // weighs nothing
const NONE: u32 = 0xffffffffu;
const LOWEST: f32 = -3.0e38;

// One thread's result, for all.
struct Found {
    bin: u32,           // NONE: the target lies beyond all
    before: vec2<u32>,  // what the bins before it sum up to
    all: vec2<u32>,     // what all bins sum up to
}

// The elements of a distribution: those nearer than `distance`, and `ties` of those there.
struct Cut {
    distance: u32,
    ties: u32,
}

var<workgroup> low: array<atomic<u32>, 1024>;
var<workgroup> high: array<atomic<u32>, 1024>;
var<workgroup> sums: array<vec2<u32>, 256>;
var<workgroup> groups_of_sums: array<vec2<u32>, 16>;
var<workgroup> tops: array<f32, WORKGROUP>;
var<workgroup> ids: array<u32, WORKGROUP>;
var<workgroup> roots: array<u32, 16>;
var<workgroup> cursor: atomic<u32>;
var<workgroup> found: Found;
var<workgroup> told: u32;

// 64-bit numbers are (low, high).
fn plus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sum = a.x + b.x;
    return vec2<u32>(sum, a.y + b.y + select(0u, 1u, sum < a.x));
}

fn minus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn times(a: u32, b: u32) -> vec2<u32> {
    let mid = (a & 0xffffu) * (b >> 16u);
    let other = (a >> 16u) * (b & 0xffffu);
    let first = (a & 0xffffu) * (b & 0xffffu);
    let carried = (first >> 16u) + (mid & 0xffffu) + (other & 0xffffu);
    return vec2<u32>(
        (first & 0xffffu) | (carried << 16u),
        (a >> 16u) * (b >> 16u) + (mid >> 16u) + (other >> 16u) + (carried >> 16u),
    );
}

// a · fraction / 2³², rounded down; z is 1 where that was inexact.
fn share(a: vec2<u32>, fraction: u32) -> vec3<u32> {
    let little = times(a.x, fraction);
    let whole = plus(times(a.y, fraction), vec2<u32>(little.y, 0u));
    return vec3<u32>(whole, select(0u, 1u, little.x > 0u));
}

fn is_finite(bits: u32) -> bool {
    return (bits & 0x7f800000u) != 0x7f800000u;
}

fn capped(logit: f32) -> f32 {
    if (params.softcap > 0.0) {
        // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
        return params.softcap * tanh(clamp(logit / params.softcap, -10.0, 10.0));
    }
    return logit;
}

fn distance_of(id: u32, top: f32) -> u32 {
    let logit = logits[id];
    if (!is_finite(bitcast<u32>(logit))) {
        return FAR;
    }
    return u32(min((top - capped(logit)) * params.factor, f32(FAR)));
}

// 2³¹ · 2^(−distance / 2¹⁵), at least 1: a power of 2^(−1/16) times a cubic of the rest.
fn weight(distance: u32) -> u32 {
    let rest = distance & 2047u;
    let cubic = (rest * 58200u) >> 15u;
    let square = (rest * (251896u - cubic)) >> 15u;
    let near_one = 0x80000000u - ((rest * (726817u - square)) >> 4u);
    let root = roots[(distance >> 11u) & 15u];
    return max((times(root, near_one).y << 1u) >> (distance >> 15u), 1u);
}

fn add_to(bin: u32, value: u32) {
    let before = atomicAdd(&low[bin], value);
    if (before + value < before) {
        atomicAdd(&high[bin], 1u);
    }
}

// Sums of weights (or, counted, of ones) by distance, of the cut's elements: in bins of 1024
// distances, or by single ones within the bin `within`. Over the list with that many elements, or
// over all logits for NONE.
fn tally(local: u32, top: f32, listed: u32, cut: Cut, within: u32, counted: bool) {
    for (var i = local; i < 1024u; i += WORKGROUP) {
        atomicStore(&low[i], 0u);
        atomicStore(&high[i], 0u);
    }
    workgroupBarrier();
    let count = select(listed, params.vocabulary, listed == NONE);
    for (var i = local; i < count; i += WORKGROUP) {
        var distance = FAR;
        if (listed == NONE) {
            distance = distance_of(i, top);
        } else {
            distance = kept[i].x;
        }
        if (distance < cut.distance && (within == NONE || distance >> 10u == within)) {
            let value = select(weight(distance), 1u, counted);
            add_to(select(distance & 1023u, distance >> 10u, within == NONE), value);
        }
    }
    if (local == 0u && cut.ties > 0u && (within == NONE || cut.distance >> 10u == within)) {
        let bin = select(cut.distance & 1023u, cut.distance >> 10u, within == NONE);
        let value = times(select(weight(cut.distance), 1u, counted), cut.ties);
        add_to(bin, value.x);
        atomicAdd(&high[bin], value.y);
    }
    workgroupBarrier();
}

fn bin_sum(bin: u32) -> vec2<u32> {
    return vec2<u32>(atomicLoad(&low[bin]), atomicLoad(&high[bin]));
}

// The first bin at whose end the sum of all bins so far reaches a target of 1 or more.
fn search(local: u32, goal: vec2<u32>) -> Found {
    for (var i = local; i < 256u; i += WORKGROUP) {
        sums[i] = plus(
            plus(bin_sum(4u * i), bin_sum(4u * i + 1u)),
            plus(bin_sum(4u * i + 2u), bin_sum(4u * i + 3u)),
        );
    }
    workgroupBarrier();
    if (local < 16u) {
        var sum = vec2<u32>(0u);
        for (var i = 0u; i < 16u; i++) {
            sum = plus(sum, sums[16u * local + i]);
        }
        groups_of_sums[local] = sum;
    }
    workgroupBarrier();
    if (local == 0u) {
        var all = vec2<u32>(0u);
        for (var i = 0u; i < 16u; i++) {
            all = plus(all, groups_of_sums[i]);
        }
        var before = vec2<u32>(0u);
        var bin = NONE;
        if (!less(all, goal)) {
            var group = 0u;
            while (group < 15u && less(plus(before, groups_of_sums[group]), goal)) {
                before = plus(before, groups_of_sums[group]);
                group += 1u;
            }
            var four = 16u * group;
            while (four < 16u * group + 15u && less(plus(before, sums[four]), goal)) {
                before = plus(before, sums[four]);
                four += 1u;
            }
            bin = 4u * four;
            while (bin < 4u * four + 3u && less(plus(before, bin_sum(bin)), goal)) {
                before = plus(before, bin_sum(bin));
                bin += 1u;
            }
        }
        found = Found(bin, before, all);
    }
    return workgroupUniformLoad(&found);
}

// whole / part, which is less than 2²⁰.
fn fits(whole: vec2<u32>, part: u32) -> u32 {
    var quotient = 0u;
    for (var bit = 1u << 19u; bit > 0u; bit >>= 1u) {
        if (!less(whole, times(quotient | bit, part))) {
            quotient |= bit;
        }
    }
    return quotient;
}

// The cut at which the sum reaches the goal, where the first bins are tallied and one of them was
// found. It has one tie or more.
fn refined(local: u32, top: f32, listed: u32, cut: Cut, coarse: Found, goal: vec2<u32>, counted: bool) -> Cut {
    tally(local, top, listed, cut, coarse.bin, counted);
    let rest = minus(goal, coarse.before);
    let fine = search(local, rest);
    let distance = (coarse.bin << 10u) | fine.bin;
    if (local == 0u) {
        let each = select(weight(distance), 1u, counted);
        // Rounded up: (rest − 1) / each + 1.
        told = fits(minus(minus(rest, fine.before), vec2<u32>(1u, 0u)), each) + 1u;
    }
    return Cut(distance, workgroupUniformLoad(&told));
}

// The largest logit's id, NONE where a logit is NaN or +∞, or none is finite.
fn largest(local: u32) -> u32 {
    var best = NONE;
    var top = LOWEST;
    var broken = false;
    for (var i = local; i < params.vocabulary; i += WORKGROUP) {
        let logit = logits[i];
        let bits = bitcast<u32>(logit);
        broken = broken || (bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u;
        if (is_finite(bits) && (best == NONE || logit > top)) {
            best = i;
            top = logit;
        }
    }
    tops[local] = top;
    ids[local] = best;
    if (local == 0u) {
        atomicStore(&cursor, 0u);
    }
    workgroupBarrier();
    if (broken) {
        atomicStore(&cursor, 1u);
    }
    for (var half = WORKGROUP / 2u; half > 0u; half /= 2u) {
        if (local < half) {
            let other = ids[local + half];
            let higher = tops[local + half];
            let mine = ids[local];
            if (other != NONE && (mine == NONE || higher > tops[local] || (higher == tops[local] && other < mine))) {
                tops[local] = higher;
                ids[local] = other;
            }
        }
        workgroupBarrier();
    }
    if (local == 0u) {
        told = select(ids[0], NONE, atomicLoad(&cursor) == 1u);
    }
    return workgroupUniformLoad(&told);
}

// Lists the elements up to `bin`; returns the list's length.
fn list(local: u32, top: f32, cut: Cut, bin: u32) -> u32 {
    if (local == 0u) {
        atomicStore(&cursor, 0u);
    }
    workgroupBarrier();
    for (var i = local; i < params.vocabulary; i += WORKGROUP) {
        let distance = distance_of(i, top);
        if (distance <= min(cut.distance, FAR - 1u) && distance >> 10u <= bin) {
            kept[atomicAdd(&cursor, 1u)] = vec2<u32>(distance, i);
        }
    }
    storageBarrier();
    workgroupBarrier();
    if (local == 0u) {
        told = atomicLoad(&cursor);
    }
    return workgroupUniformLoad(&told);
}

// Number of listed elements at this distance with an id of at most `id`.
fn ties_up_to(local: u32, listed: u32, distance: u32, id: u32) -> u32 {
    if (local == 0u) {
        atomicStore(&cursor, 0u);
    }
    workgroupBarrier();
    for (var i = local; i < listed; i += WORKGROUP) {
        if (kept[i].x == distance && kept[i].y <= id) {
            atomicAdd(&cursor, 1u);
        }
    }
    workgroupBarrier();
    if (local == 0u) {
        told = atomicLoad(&cursor);
    }
    return workgroupUniformLoad(&told);
}

// The id of the last of a cut's ties.
fn last_of(local: u32, listed: u32, cut: Cut) -> u32 {
    if (local == 0u) {
        atomicStore(&cursor, NONE);
    }
    workgroupBarrier();
    for (var i = local; i < listed; i += WORKGROUP) {
        if (kept[i].x == cut.distance) {
            atomicMin(&cursor, kept[i].y);
        }
    }
    workgroupBarrier();
    if (local == 0u) {
        told = atomicLoad(&cursor);
    }
    var from_id = workgroupUniformLoad(&told);
    if (cut.ties > 1u) {
        var to_id = params.vocabulary - 1u;
        while (from_id < to_id) {
            let middle = (from_id + to_id) / 2u;
            if (ties_up_to(local, listed, cut.distance, middle) >= cut.ties) {
                to_id = middle;
            } else {
                from_id = middle + 1u;
            }
        }
    }
    return from_id;
}

fn choose(local: u32, number: u32) -> u32 {
    let best = largest(local);
    if (best == NONE || params.greedy == 1u) {
        return best;
    }
    let top = capped(logits[best]);
    var cut = Cut(params.far, 0u);
    if (params.top_k > 0u) {
        tally(local, top, NONE, cut, NONE, true);
        let goal = vec2<u32>(params.top_k, 0u);
        let coarse = search(local, goal);
        if (coarse.bin != NONE) {
            cut = refined(local, top, NONE, cut, coarse, goal, true);
        }
    }
    tally(local, top, NONE, cut, NONE, false);
    let one = vec2<u32>(1u, 0u);
    var nucleus = search(local, one);
    var goal = nucleus.all;
    if (params.top_p > 0u) {
        let part = share(nucleus.all, params.top_p);
        goal = plus(part.xy, vec2<u32>(part.z, 0u));
        if (less(goal, one)) {
            goal = one;
        }
    }
    nucleus = search(local, goal);
    let listed = list(local, top, cut, nucleus.bin);
    if (params.top_p > 0u) {
        cut = refined(local, top, listed, cut, nucleus, goal, false);
    }
    tally(local, top, listed, cut, NONE, false);
    let whole = search(local, one).all;
    let target_sum = plus(share(whole, number).xy, one);
    let coarse = search(local, target_sum);
    cut = refined(local, top, listed, cut, coarse, target_sum, false);
    return last_of(local, listed, cut);
}

fn draw(local: u32) {
    if (local < 16u) {
        // 2³¹ · 2^(−local / 16): the binary digits of local by turns.
        var root = 0x80000000u;
        if ((local & 8u) > 0u) {
            root = times(root, 3037000500u).y;
        }
        if ((local & 4u) > 0u) {
            root = times(root, 3611622603u).y;
        }
        if ((local & 2u) > 0u) {
            root = times(root, 3938502376u).y;
        }
        if ((local & 1u) > 0u) {
            root = times(root, 4112874773u).y;
        }
        roots[local] = root;
    }
    if (local == 0u) {
        told = next[1];
    }
    let step = workgroupUniformLoad(&told);
    if (step >= params.steps) {
        return;
    }
    let id = choose(local, random[step]);
    if (local == 0u) {
        drawn[step] = id;
        next[0] = id;
        next[1] = step + 1u;
        place[0] += vec4<u32>(1u, 1u, 0u, 0u);
    }
}
