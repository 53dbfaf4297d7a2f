// act(gate) · up: the first half of the weight rows are the gate's, the second the up rows.
fn pairs() -> u32 {
    return params.rows / 2u;
}

fn rows_of(pair: u32) -> vec2<u32> {
    return vec2<u32>(pair, pairs() + pair);
}

fn put_pair(x_row: u32, pair: u32, product: vec2<f32>) {
    var g = product.x;
    var up = product.y;
    if (params.has_bias == 1u) {
        g += bias[pair];
        up += bias[pairs() + pair];
    }
    var gate = 0.0;
    if (params.gelu == 1u) {
        let inner = 0.7978845608 * (g + 0.044715 * g * g * g);
        // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
        gate = 0.5 * g * (1.0 + tanh(clamp(inner, -10.0, 10.0)));
    } else {
        // exp overflows beyond 88; there the sigmoid is 0 in f32 anyway.
        gate = g / (1.0 + exp(-max(g, -80.0)));
    }
    put(x_row, pair, gate * up);
}
