// Decoding of a block's words: four bytes, two f16, eight nibbles.

// The bytes of a word, from the lowest up, without a sign.
fn bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(
        f32(word & 0xffu),
        f32((word >> 8u) & 0xffu),
        f32((word >> 16u) & 0xffu),
        f32(word >> 24u),
    );
}

// The bytes of a word with their sign: an arithmetic shift of a byte moved to the top.
fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(
        f32(bitcast<i32>(word << 24u) >> 24u),
        f32(bitcast<i32>(word << 16u) >> 24u),
        f32(bitcast<i32>(word << 8u) >> 24u),
        f32(bitcast<i32>(word) >> 24u),
    );
}

// The nibbles of quad q of a unit that has them as Q4_0 does, a byte each.
fn nibbles(unit: vec4<u32>, q: u32) -> u32 {
    return (unit[q & 3u] >> (q & 4u)) & 0x0f0f0f0fu;
}

// Bit q of each byte of a word.
fn bits(word: u32, q: u32) -> u32 {
    return (word >> q) & 0x01010101u;
}

// Two bits of each byte: of a unit whose word q / 4 has them for quad q from bit 2(q mod 4) on.
fn twos(unit: vec2<u32>, q: u32) -> u32 {
    return (unit[q >> 2u] >> (2u * (q & 3u))) & 0x03030303u;
}

// Word i of a plane that starts at word `start` of the weights.
fn word_at(start: u32, i: u32) -> u32 {
    let word = start + i;
    return weights[word >> 2u][word & 3u];
}

// Pair i of a plane of f16, likewise.
fn halves_at(start: u32, i: u32) -> vec2<f32> {
    return unpack2x16float(word_at(start, i));
}

// Number i of a plane of f16, likewise.
fn half_at(start: u32, i: u32) -> f32 {
    let pair = halves_at(start, i >> 1u);
    return select(pair.x, pair.y, (i & 1u) == 1u);
}
