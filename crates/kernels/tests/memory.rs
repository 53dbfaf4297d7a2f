//! GPU memory of a large matrix: alone in its process, to be countable.

use conclave_kernels::*;

/// The driver's rounding and its reserve for the next buffers.
const SPARE: u64 = 16 << 20;

/// Little more than the file's bytes, during and after upload; all of it is freed.
#[test]
fn a_large_matrix_takes_its_own_size() {
    pollster::block_on(async {
        let gpu = Gpu::init(AdapterChoice::Best)
            .await
            .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"));
        let (rows, cols) = (50_000, 2048);
        let row = vec![1_u8; cols / 32 * 34];
        let bytes = (rows * row.len()) as u64;
        let before = gpu.memory_reserved();
        let live = gpu.memory_in_use();
        let mut upload = Matrix::begin_split(&gpu, Format::Q8_0, rows, cols, 40 << 20).unwrap();
        let most = before + bytes + SPARE;
        let piece = row.repeat(500);
        for _ in 0..rows / 500 {
            upload.push(&piece).unwrap();
            assert!(gpu.memory_reserved() <= most);
        }
        let matrix = upload.finish().unwrap();
        gpu.sync().await.unwrap();
        let taken = gpu.memory_reserved() - before;
        println!("{taken} bytes for {bytes} in {} parts", matrix.parts());
        assert!(
            (bytes..=bytes + SPARE).contains(&taken),
            "{taken} for {bytes}"
        );
        assert_eq!(matrix.bytes(), bytes.next_multiple_of(16));
        assert_eq!(gpu.memory_in_use(), live + matrix.bytes());
        drop(matrix);
        assert_eq!(gpu.memory_in_use(), live);
        gpu.sync().await.unwrap();
        assert!(gpu.memory_reserved() <= before + SPARE);
    });
}
