
// A head of the cache: pairs of fractions, then the units, two a word, and zeros up to whole pairs
// of words. Each eight numbers are fractions of a unit, their largest rounded up to BF16.
fn words_of_head() -> u32 {
    return params.width / 2u + (params.width + 31u) / 32u * 2u;
}

// The unit of the numbers `8 · eight ..`, as bits of an f32.
fn unit_of(head: Head, eight: u32) -> u32 {
    var peak = 0.0;
    for (var i = 8u * eight; i < min(8u * eight + 8u, params.width); i++) {
        peak = max(peak, abs(stored(head, i)));
    }
    return (bitcast<u32>(peak) + 0xffffu) & 0xffff0000u;
}

// Numbers i and i + 1 in their unit.
fn fractions(head: Head, i: u32, unit: f32) -> u32 {
    // Below this, its inverse would be infinite.
    let inverse = select(0.0, 1.0 / unit, unit > 1.0e-37);
    return pack2x16snorm(vec2<f32>(stored(head, i), stored(head, i + 1u)) * inverse);
}

fn word_of_head(i: u32, head: Head) -> u32 {
    let words = params.width / 2u;
    if (i < words) {
        return fractions(head, 2u * i, bitcast<f32>(unit_of(head, i / 4u)));
    }
    let eight = 2u * (i - words);
    return (unit_of(head, eight) >> 16u) | unit_of(head, eight + 1u);
}

// Number i as it is read from the cache.
fn kept(head: Head, i: u32) -> f32 {
    let unit = bitcast<f32>(unit_of(head, i / 8u));
    let pair = unpack2x16snorm(fractions(head, i / 2u * 2u, unit));
    return select(pair.x, pair.y, i % 2u == 1u) * unit;
}
