// 1 / sqrt(mean(x²) + ε) of the row of x that begins at this quad, to all threads of an item.
fn row_factor(from_row: u32, local: u32) -> f32 {
    var sum = 0.0;
    for (var i = local; i < params.quads; i += THREADS) {
        let v = x[from_row + i];
        sum += dot(v, v);
    }
    return inverseSqrt(sum_of_all(sum, local) / f32(params.quads * 4u) + params.epsilon);
}
