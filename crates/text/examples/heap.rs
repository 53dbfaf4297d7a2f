//! Heap use of building a tokenizer, in megabytes, beside the model's own files:
//!
//! ```sh
//! cargo run -p conclave-text --example heap -- MODEL.gguf|FOLDER
//! ```

#[path = "../../weights/tests/allocation/mod.rs"]
mod allocation;

use std::error::Error;

use allocation::{allocated, measured};
use conclave_text::Tokenizer;
use conclave_weights::{Gguf, HuggingFace};

#[expect(clippy::cast_precision_loss, reason = "megabytes to one place")]
fn megabytes(bytes: usize) -> f64 {
    (bytes as f64 / 1e5).round() / 10.0
}

type Build = Box<dyn FnOnce() -> Result<Tokenizer, Box<dyn Error>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("say which model")?;
    let path = std::path::Path::new(&path);
    let (files, build): (usize, Build);
    if path.is_dir() {
        let json = std::fs::read(path.join("tokenizer.json"))?;
        files = json.len();
        let folder = HuggingFace {
            tokenizer: Some(json),
            ..HuggingFace::default()
        };
        build = Box::new(move || Ok(Tokenizer::from_hugging_face(&folder)?));
    } else {
        let gguf = Gguf::parse_whole(&std::fs::read(path)?)?;
        files = allocated();
        build = Box::new(move || Ok(Tokenizer::from_gguf(gguf.metadata())?));
    }
    let before = allocated();
    let (tokenizer, most) = measured(build);
    let tokenizer = tokenizer?;
    // The closure has dropped the files.
    let resident = allocated() + files - before;
    println!(
        "{} tokens; files {} MB, peak beside them {} MB, resident {} MB",
        tokenizer.len(),
        megabytes(files),
        megabytes(most),
        megabytes(resident)
    );
    Ok(())
}
