// Nibbles that choose from a table of sixteen signed bytes.
fn level(nibble: u32) -> f32 {
    return f32(bitcast<i32>(LEVELS[nibble >> 2u] << (24u - 8u * (nibble & 3u))) >> 24u);
}

// The levels of the four nibbles in the bytes of a word.
fn levels(word: u32) -> vec4<f32> {
    return vec4<f32>(
        level(word & 15u),
        level((word >> 8u) & 15u),
        level((word >> 16u) & 15u),
        level(word >> 24u),
    );
}
