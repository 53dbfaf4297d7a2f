
// A head of the cache: its numbers.
fn words_of_head() -> u32 {
    return params.width;
}

fn word_of_head(i: u32, turns: u32, is_value: bool, unit: f32) -> u32 {
    return bitcast<u32>(cached(i, turns, is_value));
}
