// An output for every weight row; a pair is two neighbours.
fn pairs() -> u32 {
    return (params.rows + 1u) / 2u;
}

// The last of an odd number of rows is paired with itself, and written once.
fn rows_of(pair: u32) -> vec2<u32> {
    return vec2<u32>(2u * pair, min(2u * pair + 1u, params.rows - 1u));
}

fn put_pair(x_row: u32, pair: u32, product: vec2<f32>) {
    let rows = rows_of(pair);
    let columns = params.begin + rows;
    var values = product;
    if (params.has_bias == 1u) {
        values += vec2<f32>(bias[columns.x], bias[columns.y]);
    }
    put(x_row, columns.x, values.x);
    if (rows.y > rows.x) {
        put(x_row, columns.y, values.y);
    }
}
