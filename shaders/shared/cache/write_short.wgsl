
// A head of the cache: pairs of fractions, the scale, a zero.
fn words_of_head() -> u32 {
    return params.width / 2u + 2u;
}

fn word_of_head(i: u32, head: Head, unit: f32) -> u32 {
    let words = params.width / 2u;
    if (i < words) {
        // Below this, its inverse would be infinite.
        let inverse = select(0.0, 1.0 / unit, unit > 1.0e-37);
        let pair = vec2<f32>(stored(head, 2u * i), stored(head, 2u * i + 1u));
        return pack2x16snorm(pair * inverse);
    }
    return select(0u, bitcast<u32>(unit), i == words);
}
