
// Number i of the head whose words begin at `at`.
fn number_of_head(at: u32, i: u32) -> f32 {
    return bitcast<f32>(cache[at + i]);
}
