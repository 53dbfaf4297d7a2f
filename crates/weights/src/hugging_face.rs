//! A Hugging Face folder: its JSON files, and its tensors, in one safetensors file or in several
//! with an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::checkpoint::{list, named};
use crate::no_model::{BYTE_ORDER_MARK, adapter, refuse_stand_in};
#[cfg(not(target_family = "wasm"))]
use crate::no_model::{FORMAT_BYTES, refuse_format};
use crate::safetensors::{Directory, directory};
use crate::{CheckpointError, Source, SourceError, SourceFile, json, scales};

/// Limits for files that are read whole. Real configurations have some kilobytes, Gemma 3's
/// tokenizer settings 1.2 MB, its tokenizer 33 MB.
const MAX_CONFIG_BYTES: u64 = 4 << 20;
const MAX_TOKENIZER_BYTES: u64 = 100 << 20;
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// Folder of named chat templates in a model's folder.
pub(crate) const MORE_TEMPLATES: &str = "additional_chat_templates/";

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// A Hugging Face folder's description of its model, without the tensors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HuggingFace {
    /// `config.json`: an object.
    pub config: Value,
    /// `generation_config.json`, if present.
    pub generation_config: Option<Value>,
    /// `tokenizer.json` as it is, but in JSON without Python's numbers.
    pub tokenizer: Option<Vec<u8>>,
    /// `tokenizer_config.json`, if present.
    pub tokenizer_config: Option<Value>,
    /// `chat_template.jinja`, if present.
    pub chat_template: Option<String>,
    /// Chat templates elsewhere, each a text or a list of named ones: of `chat_template.json`,
    /// `processor_config.json` and the folder `additional_chat_templates`.
    pub other_templates: Vec<Value>,
}

impl HuggingFace {
    /// The quantisation method in `config.json`, such as `gptq`. `None` without one, and for 8-bit
    /// floats with scales, which are read.
    pub fn quantised_by(&self) -> Option<String> {
        let settings = self.quantisation()?;
        let word = |key: &str| settings.get(key).and_then(Value::as_str);
        let method = word("quant_method").unwrap_or("an unnamed method");
        let transformed = settings.get("transform_config").is_some_and(|transforms| {
            !transforms.is_null() && *transforms != Value::Object(Map::new())
        });
        let named = match (method, word("format")) {
            ("fp8", _) => return None,
            ("compressed-tensors", Some("float-quantized" | "naive-quantized")) => {
                if !transformed {
                    return None;
                }
                "compressed-tensors with transforms".to_owned()
            }
            (method, Some(format)) => format!("{method} ({format})"),
            (method, None) => method.to_owned(),
        };
        Some(named.chars().take(64).collect())
    }

    /// The entry of `config.json` about the quantisation of weights.
    pub(crate) fn quantisation(&self) -> Option<&Value> {
        let settings = self.config.get("quantization_config")?;
        Some(settings).filter(|settings| !settings.is_null())
    }
}

/// Whether a source has a Hugging Face folder's weights.
pub(crate) fn has_weights(source: &dyn Source) -> bool {
    named(source, WEIGHTS).or(named(source, INDEX)).is_some()
}

/// Whether a source looks like a folder, perhaps an incomplete one.
pub(crate) fn is_folder(source: &dyn Source) -> bool {
    let of_a_folder =
        |name: &str| name.ends_with(".safetensors") || name.ends_with(".json") || is_pickle(name);
    source.files().iter().any(|file| of_a_folder(&file.name))
}

fn is_pickle(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    matches!(ending, Some("bin" | "pth" | "pt"))
}

/// Reads a folder's JSON files and its tensors' directory.
pub(crate) async fn open(source: &dyn Source) -> Result<(HuggingFace, Directory), CheckpointError> {
    let mut weights = weights(source).await?;
    let config = settings(source, CONFIG).await?;
    let config = config.ok_or_else(|| CheckpointError::MissingFiles {
        files: CONFIG.to_owned(),
    })?;
    let described = HuggingFace {
        config,
        generation_config: settings(source, "generation_config.json").await?,
        tokenizer: whole(source, "tokenizer.json", MAX_TOKENIZER_BYTES).await?,
        tokenizer_config: settings(source, "tokenizer_config.json").await?,
        chat_template: template(source, "chat_template.jinja").await?,
        other_templates: other_templates(source).await?,
    };
    scales::attach(&mut weights, &described);
    Ok((described, weights))
}

async fn weights(source: &dyn Source) -> Result<Directory, CheckpointError> {
    // As in transformers, one file goes before several.
    let file = named(source, WEIGHTS);
    // The page's engine is to be small.
    #[cfg(not(target_family = "wasm"))]
    let file = file.or_else(|| only(source));
    if let Some(file) = file {
        return directory(source, file).await;
    }
    if let Some(index) = whole(source, INDEX, MAX_INDEX_BYTES).await? {
        return shards(source, &index).await;
    }
    if let Some(error) = adapter(source) {
        return Err(error);
    }
    let files = source.files();
    if let Some(pickled) = files.iter().position(|file| is_pickle(&file.name)) {
        let file = files[pickled].name.clone();
        // In a page they are not read, and its engine is to be small.
        #[cfg(not(target_family = "wasm"))]
        refuse_no_pickle(source, pickled).await?;
        return Err(CheckpointError::Pickle { file });
    }
    let part = |file: &&SourceFile| file.name.ends_with(".safetensors");
    let missing = match source.files().iter().find(part) {
        Some(_) => INDEX,
        None => WEIGHTS,
    };
    Err(CheckpointError::MissingFiles {
        files: missing.to_owned(),
    })
}

/// The only file of weights, whatever its name. An adapter, or one of several parts, does not
/// count.
#[cfg(not(target_family = "wasm"))]
fn only(source: &dyn Source) -> Option<usize> {
    let files = source.files();
    let whole = |file: &SourceFile| {
        let name = &file.name;
        name.ends_with(".safetensors") && !name.contains("adapter") && !name.contains("-of-")
    };
    let file = files.iter().position(whole)?;
    let alone = named(source, INDEX).is_none() && adapter(source).is_none();
    (alone && files.iter().rposition(whole) == Some(file)).then_some(file)
}

/// Refuses a file that is named as a pickle and is none, and old GGML files.
#[cfg(not(target_family = "wasm"))]
async fn refuse_no_pickle(source: &dyn Source, file: usize) -> Result<(), CheckpointError> {
    let files = source.files();
    let found = files.get(file).ok_or(SourceError::NoFile { file })?;
    let most = found.bytes.min(FORMAT_BYTES as u64);
    let mut start = vec![0; usize::try_from(most).unwrap_or_default()];
    source.read(file, 0, &mut start).await?;
    refuse_stand_in(&found.name, &start, true)?;
    // PyTorch's are zip archives.
    if start.starts_with(b"PK") {
        return Ok(());
    }
    refuse_format(&found.name, &start)
}

/// The tensors of all shards, which must be exactly those of the index, each in its file.
async fn shards(source: &dyn Source, index: &[u8]) -> Result<Directory, CheckpointError> {
    let Index {
        weight_map: WeightMap(places),
    } = serde_json::from_slice(index).map_err(|error| CheckpointError::Json {
        file: INDEX.to_owned(),
        reason: error.to_string(),
    })?;
    let shards: BTreeSet<&str> = places.values().map(String::as_str).collect();
    let mut files = BTreeMap::new();
    let mut missing = Vec::new();
    for shard in shards {
        match named(source, shard) {
            Some(file) => drop(files.insert(file, shard)),
            None => missing.push(shard),
        }
    }
    if !missing.is_empty() {
        return Err(CheckpointError::MissingFiles {
            files: list(missing),
        });
    }
    let mut all = Directory::default();
    for (&file, shard) in &files {
        let found = directory(source, file).await?;
        let unreadable = found.unreadable.iter().map(|tensor| &tensor.name);
        for name in found
            .tensors
            .iter()
            .map(|tensor| &tensor.name)
            .chain(unreadable)
        {
            if places.get(name).is_none_or(|place| place != shard) {
                return Err(CheckpointError::Unlisted {
                    tensor: name.clone(),
                    file: (*shard).to_owned(),
                });
            }
        }
        all.tensors.extend(found.tensors);
        all.unreadable.extend(found.unreadable);
    }
    if all.tensors.len() + all.unreadable.len() < places.len() {
        let readable = all.tensors.iter().map(|tensor| tensor.name.as_str());
        let unreadable = all.unreadable.iter().map(|tensor| tensor.name.as_str());
        let found: BTreeSet<&str> = readable.chain(unreadable).collect();
        let absent = places
            .iter()
            .filter(|(name, _)| !found.contains(name.as_str()));
        if let Some((tensor, file)) = absent.min() {
            return Err(CheckpointError::NotInShard {
                tensor: tensor.clone(),
                file: file.clone(),
            });
        }
    }
    Ok(all)
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Tensor name to file.
struct WeightMap(HashMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Places;

        impl<'de> Visitor<'de> for Places {
            type Value = WeightMap;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with each tensor's file")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut places = HashMap::new();
                while let Some((tensor, file)) = map.next_entry::<String, String>()? {
                    if places.contains_key(&tensor) {
                        let twice = format!("tensor `{tensor}` occurs twice");
                        return Err(A::Error::custom(twice));
                    }
                    places.insert(tensor, file);
                }
                Ok(WeightMap(places))
            }
        }

        reader.deserialize_map(Places)
    }
}

/// A JSON file, which must hold an object; `None` if absent.
async fn settings(source: &dyn Source, name: &str) -> Result<Option<Value>, CheckpointError> {
    let Some(bytes) = whole(source, name, MAX_CONFIG_BYTES).await? else {
        return Ok(None);
    };
    let unsound = |reason| CheckpointError::Json {
        file: name.to_owned(),
        reason,
    };
    let value = json::parse(&bytes).map_err(unsound)?;
    if !value.is_object() {
        return Err(unsound("it holds no object".to_owned()));
    }
    Ok(Some(value))
}

async fn template(source: &dyn Source, name: &str) -> Result<Option<String>, CheckpointError> {
    let bytes = whole(source, name, MAX_CONFIG_BYTES).await?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| CheckpointError::Utf8 {
        file: name.to_owned(),
    })
}

/// Chat templates other than those that transformers reads first.
async fn other_templates(source: &dyn Source) -> Result<Vec<Value>, CheckpointError> {
    let mut found = Vec::new();
    for name in ["chat_template.json", "processor_config.json"] {
        let file = settings(source, name).await?;
        found.extend(file.and_then(|mut file| Some(file.get_mut("chat_template")?.take())));
    }
    let mut named = Map::new();
    for file in source.files() {
        let name = file.name.strip_prefix(MORE_TEMPLATES);
        if let Some(name) = name.and_then(|name| name.strip_suffix(".jinja"))
            && let Some(text) = template(source, &file.name).await?
        {
            named.insert(name.to_owned(), text.into());
        }
    }
    found.push(Value::Object(named));
    Ok(found)
}

/// A file's bytes, `None` if absent.
async fn whole(
    source: &dyn Source,
    name: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>, CheckpointError> {
    let Some(file) = named(source, name) else {
        return Ok(None);
    };
    let files = source.files();
    let length = files.get(file).ok_or(SourceError::NoFile { file })?.bytes;
    let size = usize::try_from(length).ok().filter(|_| length <= limit);
    let mut bytes = vec![
        0;
        size.ok_or_else(|| CheckpointError::LongFile {
            file: name.to_owned(),
            bytes: length,
            limit,
        })?
    ];
    source.read(file, 0, &mut bytes).await?;
    refuse_stand_in(name, &bytes, false)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    if name.ends_with(".json") {
        bytes = json::without_python(bytes);
    }
    Ok(Some(bytes))
}
