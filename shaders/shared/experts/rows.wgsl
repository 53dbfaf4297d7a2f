// Shared by the products of experts: the row of x of each choice of a token with the chosen
// expert's rows. Weight rows are taken in pairs of neighbours.
struct Params {
    rows: u32,    // weight rows of this part
    units: u32,   // units in a weight row
    plane1_offset: u32,  // word offset of the second plane
    begin: u32,   // the part's first row among those of all experts
    n: u32,       // weight rows of an expert, columns of out
    each: u32,    // choices that take the same row of x
    used: u32,    // choices of a token
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;  // [choices / each, units * QUADS]
// [rows, units], then other planes
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> chosen: array<u32>;           // [choices] an expert
@group(0) @binding(4) var<storage, read_write> out: array<f32>;        // [choices, n]

fn pairs() -> u32 {
    return (params.n + 1u) / 2u;
}

// Whether this part has rows of an expert.
fn is_here(expert: u32) -> bool {
    let first = expert * params.n;
    return first < params.begin + params.rows && first + params.n > params.begin;
}

// The columns of a pair. The last of an odd number is paired with itself, and written once.
fn columns_of(pair: u32) -> vec2<u32> {
    return vec2<u32>(2u * pair, min(2u * pair + 1u, params.n - 1u));
}

// A pair's rows in this part; for one elsewhere the nearest, which is not written.
fn rows_of(expert: u32, pair: u32) -> vec2<u32> {
    let rows = expert * params.n + columns_of(pair);
    let begin = vec2<u32>(params.begin);
    return clamp(rows, begin, begin + params.rows - 1u) - begin;
}

fn put_pair(choice: u32, expert: u32, pair: u32, product: vec2<f32>) {
    let columns = columns_of(pair);
    let rows = expert * params.n + columns;
    // For a beginning beyond the row, this wraps around and exceeds all rows.
    if (rows.x - params.begin < params.rows) {
        out[choice * params.n + columns.x] = product.x;
    }
    if (columns.y > columns.x && rows.y - params.begin < params.rows) {
        out[choice * params.n + columns.y] = product.y;
    }
}
