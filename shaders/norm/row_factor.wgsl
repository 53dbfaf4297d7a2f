
var<workgroup> partial: array<f32, WORKGROUP>;

// 1 / sqrt(mean(x²) + ε) of the row of x that begins at this quad, to all threads of a workgroup.
fn row_factor(from_row: u32, local: u32) -> f32 {
    var sum = 0.0;
    for (var i = local; i < params.quads; i += WORKGROUP) {
        let v = x[from_row + i];
        sum += dot(v, v);
    }
    partial[local] = sum;
    workgroupBarrier();
    // Every thread adds up all partial sums: one barrier instead of seven.
    var total = 0.0;
    for (var i = 0u; i < WORKGROUP; i++) {
        total += partial[i];
    }
    return inverseSqrt(total / f32(params.quads * 4u) + params.epsilon);
}
