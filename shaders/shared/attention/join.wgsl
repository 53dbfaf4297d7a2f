
// A quad of a query's attention from the results of its chunks after `first`: each chunk's sum of
// values and its sum of exponentials, both relative to its highest score, and that score.
fn joined(first: u32, chunks: u32, quads: u32, column: u32) -> vec4<f32> {
    var top = -3.0e38;
    for (var i = 0u; i < chunks; i++) {
        top = max(top, partials[first + i * (quads + 1u) + quads].x);
    }
    var whole = vec4<f32>(0.0);
    var weight = 0.0;
    for (var i = 0u; i < chunks; i++) {
        let chunk = first + i * (quads + 1u);
        let its = partials[chunk + quads];
        let fade = exp(its.x - top);
        whole += fade * partials[chunk + column];
        weight += fade * its.y;
    }
    return whole / weight;
}
