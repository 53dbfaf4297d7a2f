//! A model's files as the page holds them (in its store, in blobs, in memory), read by ranges.

use conclave_weights::{Reading, Source, SourceError, SourceFile};
use js_sys::{Error, Uint8Array};
use serde::Deserialize;
use wasm_bindgen::prelude::*;

use crate::failure::Failure;

#[wasm_bindgen(typescript_custom_section)]
const TYPE: &str = r#"
/** The files of one model, read by ranges. */
export interface ModelFiles {
  readonly files: readonly { name: string; bytes: number }[];
  read(file: number, offset: number, length: number): Promise<Uint8Array>;
}
"#;

#[wasm_bindgen]
extern "C" {
    /// The page's object that reads a model's files.
    #[wasm_bindgen(typescript_type = "ModelFiles")]
    pub type ModelFiles;

    #[wasm_bindgen(method, getter)]
    fn files(this: &ModelFiles) -> JsValue;

    #[wasm_bindgen(method, catch)]
    async fn read(
        this: &ModelFiles,
        file: u32,
        offset: f64,
        length: u32,
    ) -> Result<JsValue, JsValue>;
}

#[derive(Deserialize)]
struct File {
    name: String,
    bytes: f64,
}

/// The page's files as a [`Source`]. The module's memory holds only the
/// range being read.
pub struct PageFiles {
    page: ModelFiles,
    files: Vec<SourceFile>,
}

impl PageFiles {
    /// Lists the files.
    ///
    /// # Errors
    /// Anything but a list of names and sizes.
    pub fn new(page: ModelFiles) -> Result<Self, Failure> {
        let files: Vec<File> = serde_wasm_bindgen::from_value(page.files())?;
        let files = files
            .into_iter()
            .map(|File { name, bytes }| SourceFile {
                name,
                // Sizes are integers below 2^53; anything else becomes a size that no file has.
                bytes: bytes as u64,
            })
            .collect();
        Ok(Self { page, files })
    }
}

impl Source for PageFiles {
    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn read<'a>(&'a self, file: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a> {
        Box::pin(async move {
            let SourceFile { name, bytes } =
                self.files.get(file).ok_or(SourceError::NoFile { file })?;
            let needed = offset.saturating_add(into.len() as u64);
            if needed > *bytes {
                return Err(SourceError::End {
                    file: name.clone(),
                    bytes: *bytes,
                    needed,
                });
            }
            let failed = |reason: String| SourceError::Read {
                file: name.clone(),
                reason,
            };
            let read = self
                .page
                .read(file as u32, offset as f64, into.len() as u32);
            let read = read.await.map_err(|thrown| failed(message(&thrown)))?;
            let read: Uint8Array = read
                .dyn_into()
                .map_err(|_| failed("the page read something else than bytes".to_owned()))?;
            if read.length() as usize != into.len() {
                return Err(failed(format!(
                    "{} bytes came where {} were asked for",
                    read.length(),
                    into.len()
                )));
            }
            read.copy_to(into);
            Ok(())
        })
    }
}

/// The message of an exception.
pub(crate) fn message(thrown: &JsValue) -> String {
    thrown
        .dyn_ref::<Error>()
        .map_or_else(|| format!("{thrown:?}"), |error| error.message().into())
}
