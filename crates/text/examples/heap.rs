//! What building a tokenizer takes of the heap, in megabytes, beside the model's own files:
//!
//!     cargo run -p conclave-text --example heap -- MODEL.gguf|FOLDER

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_text::Tokenizer;
use conclave_weights::{Gguf, HuggingFace};

/// Counts the bytes in use, and the most there ever were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is the system's allocator's; only numbers are kept beside.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        files = NOW.load(Ordering::Relaxed);
        build = Box::new(move || Ok(Tokenizer::from_gguf(gguf.metadata())?));
    }
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let tokenizer = build()?;
    let most = MOST.load(Ordering::Relaxed) - before;
    // The files went with the closure.
    let resident = NOW.load(Ordering::Relaxed) + files - before;
    println!(
        "{} tokens; files {} MB, peak beside them {} MB, resident {} MB",
        tokenizer.len(),
        megabytes(files),
        megabytes(most),
        megabytes(resident)
    );
    Ok(())
}
