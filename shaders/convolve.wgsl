// The gated short convolution (LFM2): C · conv(B · x) for a token's B, C and x, over its own B · x
// and those of the tokens before it, first in its own candidate, then in the prefix. An item is one
// group of channels of one token, which also writes its B · x to the cache. Tokens of this pass are
// computed from B and x, since their rows may not be written yet, and rounded as these: a token is
// the same in whichever pass it ran. `shared/cache/write_*.wgsl` and `number_*.wgsl` write and read
// a group, as a head of the cache.
struct Params {
    groups: u32,
    width: u32,     // channels of a group
    capacity: u32,  // rows of the cache
    taps: u32,      // tokens that one sees, itself included
    biased: u32,
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
}

@group(0) @binding(0) var<storage, read> bcx: array<f32>;            // [tokens, 3, groups, width]
// [capacity, groups, words of a group]
@group(0) @binding(1) var<storage, read_write> cache: array<u32>;
@group(0) @binding(2) var<storage, read> tokens: array<vec4<u32>>;   // position, row, start, prefix
// [groups, width, taps], the oldest first
@group(0) @binding(3) var<storage, read> taps: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;           // [groups, width]
@group(0) @binding(5) var<storage, read_write> out: array<f32>;      // [tokens, groups, width]
@group(0) @binding(6) var<uniform> params: Params;

// A group of a token.
struct Head {
    base: u32,  // its first number of B
}

// Number i of B · x.
fn stored(head: Head, i: u32) -> f32 {
    return bcx[head.base + i] * bcx[head.base + 2u * params.groups * params.width + i];
}

fn head_of(token: u32, which: u32) -> Head {
    return Head((3u * token * params.groups + which) * params.width);
}

// Number i of B · x of the token `back` tokens earlier, 0 before the text's beginning.
fn seen(place: vec4<u32>, back: u32, which: u32, i: u32) -> f32 {
    let own = place.y - place.z;
    if (back > own + place.w) {
        return 0.0;
    }
    let row = select(place.w - (back - own), place.y - back, back <= own);
    // The rows of a pass are consecutive.
    let first = tokens[0].y;
    if (row >= first) {
        return kept(head_of(row - first, which), i);
    }
    if (row >= params.capacity) {
        return 0.0;
    }
    return number_of_head((row * params.groups + which) * words_of_head(), i);
}

fn make(at: vec3<u32>, across: u32, local: u32) {
    let which = at.x;
    let place = tokens[at.y];
    let width = params.width;
    if (which >= params.groups) {
        return;
    }
    let head = head_of(at.y, which);
    for (var i = local; i < width; i += THREADS) {
        let channel = which * width + i;
        var sum = 0.0;
        if (params.biased == 1u) {
            sum = bias[channel];
        }
        for (var tap = 0u; tap < params.taps; tap++) {
            sum += taps[channel * params.taps + tap] * seen(place, params.taps - 1u - tap, which, i);
        }
        out[at.y * params.groups * width + channel] = bcx[head.base + params.groups * width + i] * sum;
    }
    if (place.y >= params.capacity) {
        return;
    }
    let words = words_of_head();
    for (var i = local; i < words; i += THREADS) {
        cache[(place.y * params.groups + which) * words + i] = word_of_head(i, head);
    }
}
