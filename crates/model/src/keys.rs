//! A model's settings by name, from GGUF metadata or `config.json`.

use conclave_weights::{Array, Checkpoint, Description, Metadata, Value};
use serde_json::{Map, Value as Json};

use crate::error::ModelError;

/// Largest size of a model; it guards every product of sizes against overflow.
pub const LARGEST: usize = 1 << 20;

/// The name of one setting: in GGUF after the architecture's prefix, and in `config.json`. An empty
/// name: that kind of file has no such setting.
#[derive(Debug, Clone, Copy)]
pub struct Key(pub &'static str, pub &'static str);

/// Source of settings.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    checkpoint: &'a Checkpoint,
    world: World<'a>,
}

#[derive(Debug, Clone, Copy)]
enum World<'a> {
    Gguf {
        metadata: &'a Metadata,
        architecture: &'a str,
    },
    HuggingFace {
        config: &'a Map<String, Json>,
        /// transformers' defaults for keys that are absent (not for those that are null).
        defaults: &'a [(&'static str, f64)],
    },
}

impl<'a> Keys<'a> {
    /// The settings of a checkpoint whose family calls itself `architecture` in GGUF and takes
    /// `defaults` for what `config.json` leaves out.
    ///
    /// # Errors
    /// [`ModelError::Key`] where `config.json` is no object.
    pub fn new(
        checkpoint: &'a Checkpoint,
        architecture: &'a str,
        defaults: &'a [(&'static str, f64)],
    ) -> Result<Self, ModelError> {
        let world = match checkpoint.description() {
            Description::Gguf(metadata) => World::Gguf {
                metadata,
                architecture,
            },
            Description::HuggingFace(folder) => World::HuggingFace {
                config: language_model(&folder.config)?,
                defaults,
            },
        };
        Ok(Self { checkpoint, world })
    }

    /// Whether the settings are those of a GGUF file.
    pub fn is_gguf(&self) -> bool {
        matches!(self.world, World::Gguf { .. })
    }

    /// Whether the checkpoint has a tensor of that name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.checkpoint.has(name)
    }

    /// Whether `config.json` has the key `name` at all, null included.
    pub fn has(&self, name: &str) -> bool {
        matches!(self.world, World::HuggingFace { config, .. } if config.contains_key(name))
    }

    /// The settings inside of the object `name` of `config.json`, if there is one.
    pub fn within(&self, name: &str) -> Option<Self> {
        let World::HuggingFace { config, .. } = self.world else {
            return None;
        };
        let inner = config.get(name)?.as_object()?;
        Some(Self {
            checkpoint: self.checkpoint,
            world: World::HuggingFace {
                config: inner,
                defaults: &[],
            },
        })
    }

    /// A whole number from 1 to [`LARGEST`].
    ///
    /// # Errors
    /// [`ModelError::Key`] where it is missing, zero or too large.
    pub fn size(&self, key: Key) -> Result<usize, ModelError> {
        self.optional_size(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))
    }

    /// As [`size`](Self::size), `None` where it is missing.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn optional_size(&self, key: Key) -> Result<Option<usize>, ModelError> {
        match self.number(key)? {
            None => Ok(None),
            Some(n) if n < 1.0 => Err(self.wrong(key, "is zero or less")),
            Some(n) if n.fract() != 0.0 => Err(self.wrong(key, "is no whole number")),
            Some(n) if n > LARGEST as f64 => Err(self.wrong(key, "is beyond any known model")),
            Some(n) => Ok(Some(n as usize)),
        }
    }

    /// As [`optional_size`](Self::optional_size), but 0 counts as missing.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn size_above_zero(&self, key: Key) -> Result<Option<usize>, ModelError> {
        match self.number(key)? {
            Some(0.0) => Ok(None),
            _ => self.optional_size(key),
        }
    }

    /// A finite number above 0, also as an f32; `None` where it is missing.
    ///
    /// # Errors
    /// [`ModelError::Key`] for any other value.
    pub fn optional_float(&self, key: Key) -> Result<Option<f32>, ModelError> {
        match self.number(key)? {
            None => Ok(None),
            Some(n) if (n as f32).is_normal() && n > 0.0 => Ok(Some(n as f32)),
            Some(_) => Err(self.wrong(key, "is not a positive number")),
        }
    }

    /// A number from 0 to 1, unrounded; `None` where it is missing.
    ///
    /// # Errors
    /// [`ModelError::Key`] for any other value.
    pub fn part(&self, key: Key) -> Result<Option<f64>, ModelError> {
        match self.number(key)? {
            Some(part) if !(0.0..=1.0).contains(&part) => {
                Err(self.wrong(key, "is no part from 0 to 1"))
            }
            part => Ok(part),
        }
    }

    /// As [`optional_float`](Self::optional_float), with a value where it is missing.
    ///
    /// # Errors
    /// As [`optional_float`](Self::optional_float).
    pub fn float_or(&self, key: Key, default: f32) -> Result<f32, ModelError> {
        Ok(self.optional_float(key)?.unwrap_or(default))
    }

    /// As [`optional_float`](Self::optional_float), an error where it is missing.
    ///
    /// # Errors
    /// As [`optional_float`](Self::optional_float).
    pub fn float(&self, key: Key) -> Result<f32, ModelError> {
        self.optional_float(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))
    }

    /// A boolean; `None` where it is missing.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a value of another type.
    pub fn flag(&self, key: Key) -> Result<Option<bool>, ModelError> {
        match self.world {
            World::Gguf { metadata, .. } if !key.0.is_empty() => {
                Ok(metadata.opt_bool(&self.name(key))?)
            }
            World::HuggingFace { config, defaults } if !key.1.is_empty() => match config.get(key.1)
            {
                Some(Json::Bool(flag)) => Ok(Some(*flag)),
                Some(Json::Null) => Ok(None),
                Some(_) => Err(self.wrong(key, "is neither true nor false")),
                None => Ok(default_of(defaults, key.1).map(|number| number != 0.0)),
            },
            _ => Ok(None),
        }
    }

    /// A text, cut to its first 64 characters; `None` where the key is missing.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a value of another type.
    pub fn word(&self, key: Key) -> Result<Option<String>, ModelError> {
        let found = match self.world {
            World::Gguf { metadata, .. } if !key.0.is_empty() => {
                metadata.opt_str(&self.name(key))?
            }
            World::HuggingFace { config, .. } if !key.1.is_empty() => match config.get(key.1) {
                Some(Json::String(word)) => Some(word.as_str()),
                None | Some(Json::Null) => None,
                Some(_) => return Err(self.wrong(key, "is no text")),
            },
            _ => None,
        };
        Ok(found.map(|word| word.chars().take(64).collect()))
    }

    /// A list of `count` positive numbers.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a list of another length, and for any other value.
    pub fn floats(&self, key: Key, count: usize) -> Result<Vec<f32>, ModelError> {
        let list = self
            .list(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))?;
        if list.len() != count {
            let problem = format!("has {} numbers where {count} belong", list.len());
            return Err(self.wrong(key, &problem));
        }
        let number = |json: &Json| {
            let number = json.as_f64()? as f32;
            (number.is_normal() && number > 0.0).then_some(number)
        };
        list.iter()
            .map(number)
            .collect::<Option<_>>()
            .ok_or_else(|| self.wrong(key, "holds what is no positive number"))
    }

    /// Size of each layer, from a list or from one number for all layers. A list may hold 0, and
    /// its entries beyond `layers` are ignored.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a list that is shorter, and as [`size`](Self::size) for a number.
    pub fn layer_sizes(&self, key: Key, layers: usize) -> Result<Option<Vec<usize>>, ModelError> {
        let listed: Vec<Option<u64>> = match self.world {
            World::Gguf { metadata, .. } if !key.0.is_empty() => {
                let name = self.name(key);
                if !matches!(metadata.get(&name), Some(Value::Array(_))) {
                    return Ok(self.optional_size(key)?.map(|size| vec![size; layers]));
                }
                let sizes = metadata.opt_i32s(&name)?.unwrap_or_default();
                sizes.iter().map(|&size| u64::try_from(size).ok()).collect()
            }
            World::HuggingFace { config, .. } if config.get(key.1).is_some_and(Json::is_array) => {
                let list = self.list(key)?.into_iter().flatten();
                list.map(Json::as_u64).collect()
            }
            _ => return Ok(self.optional_size(key)?.map(|size| vec![size; layers])),
        };
        self.check_layers(key, listed.len(), layers)?;
        let size = |size: Option<u64>| Some(usize::try_from(size?).ok()?).filter(|&n| n <= LARGEST);
        listed
            .into_iter()
            .take(layers)
            .map(size)
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| self.wrong(key, "holds what is no size"))
    }

    /// Boolean of each layer, from a list of booleans or of 0 and 1. Entries beyond `layers` are
    /// ignored.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a list that is shorter or of another type.
    pub fn layer_flags(&self, key: Key, layers: usize) -> Result<Option<Vec<bool>>, ModelError> {
        let mut flags = match self.world {
            World::Gguf { metadata, .. } if !key.0.is_empty() => {
                match metadata.get(&self.name(key)) {
                    Some(Value::Array(Array::Bool(flags))) => flags.clone(),
                    // A number there is a period, which its reader asks for by itself.
                    _ => return Ok(None),
                }
            }
            _ => {
                let Some(list) = self.list(key)? else {
                    return Ok(None);
                };
                let flag = |json: &Json| match json {
                    Json::Bool(flag) => Some(*flag),
                    number => number.as_u64().map(|number| number != 0),
                };
                list.iter()
                    .map(flag)
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(|| self.wrong(key, "holds what is neither 0 nor 1"))?
            }
        };
        self.check_layers(key, flags.len(), layers)?;
        flags.truncate(layers);
        Ok(Some(flags))
    }

    /// Kind of each layer by its type in `layer_types` of `config.json`; `is` maps the known types.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a shorter list, an entry that is no string, or a type that `is` does
    /// not know.
    pub fn layers_by_type(
        &self,
        layers: usize,
        is: impl Fn(&str) -> Option<bool>,
    ) -> Result<Option<Vec<bool>>, ModelError> {
        let key = Key("", "layer_types");
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        self.check_layers(key, list.len(), layers)?;
        let words = list.iter().take(layers).map(Json::as_str);
        let words: Option<Vec<&str>> = words.collect();
        let words = words.ok_or_else(|| self.wrong(key, "holds what is no word"))?;
        words
            .into_iter()
            .map(is)
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| self.wrong(key, "names a type of layer that is not supported"))
    }

    /// A list of layer indices in `config.json`; `None` where it is missing.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a value that is no list of such indices.
    pub fn layer_numbers(&self, key: Key) -> Result<Option<Vec<usize>>, ModelError> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        let numbers = list.iter().map(|json| usize::try_from(json.as_u64()?).ok());
        numbers
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| self.wrong(key, "holds what is no layer"))
    }

    /// Whether each layer is a `sliding_attention` in `layer_types` of `config.json`.
    ///
    /// # Errors
    /// As [`layers_by_type`](Self::layers_by_type).
    pub fn sliding_layers(&self, layers: usize) -> Result<Option<Vec<bool>>, ModelError> {
        self.layers_by_type(layers, |kind| match kind {
            "sliding_attention" => Some(true),
            "full_attention" => Some(false),
            _ => None,
        })
    }

    /// An error about `key`.
    pub fn wrong(&self, key: Key, problem: &str) -> ModelError {
        ModelError::Key {
            key: self.name(key),
            problem: problem.to_owned(),
        }
    }

    /// The setting's whole name in this kind of file.
    fn name(&self, key: Key) -> String {
        match self.world {
            World::Gguf { architecture, .. } => format!("{architecture}.{}", key.0),
            World::HuggingFace { .. } => key.1.to_owned(),
        }
    }

    fn check_layers(&self, key: Key, length: usize, layers: usize) -> Result<(), ModelError> {
        if length < layers {
            let problem = format!("has {length} entries for {layers} layers");
            return Err(self.wrong(key, &problem));
        }
        Ok(())
    }

    /// A list of `config.json` as it is; `None` where it is missing.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a value that is no list.
    pub fn list(&self, key: Key) -> Result<Option<&'a Vec<Json>>, ModelError> {
        match self.world {
            World::HuggingFace { config, .. } if !key.1.is_empty() => match config.get(key.1) {
                Some(Json::Array(list)) => Ok(Some(list)),
                None | Some(Json::Null) => Ok(None),
                Some(_) => Err(self.wrong(key, "is no list")),
            },
            _ => Ok(None),
        }
    }

    fn number(&self, key: Key) -> Result<Option<f64>, ModelError> {
        match self.world {
            World::Gguf { metadata, .. } if !key.0.is_empty() => {
                let name = self.name(key);
                if let Some(Value::Array(_)) = metadata.get(&name) {
                    let numbers = metadata.opt_i32s(&name)?;
                    return self.same_for_all_layers(key, numbers.as_deref()).map(Some);
                }
                let number = metadata.opt_f32(&name)?;
                Ok(number.map(f64::from))
            }
            World::HuggingFace { config, defaults } if !key.1.is_empty() => match config.get(key.1)
            {
                Some(Json::Null) => Ok(None),
                Some(value) => value
                    .as_f64()
                    .filter(|number| number.is_finite())
                    .map(Some)
                    .ok_or_else(|| self.wrong(key, "is no number")),
                None => Ok(default_of(defaults, key.1)),
            },
            _ => Ok(None),
        }
    }

    /// The number of a list with an equal entry for each layer.
    fn same_for_all_layers(&self, key: Key, list: Option<&[i32]>) -> Result<f64, ModelError> {
        match list.and_then(<[i32]>::split_first) {
            Some((first, rest)) if rest.iter().all(|n| n == first) => Ok(f64::from(*first)),
            _ => Err(self.wrong(key, "differs from layer to layer, which is not supported")),
        }
    }
}

/// The settings of the language model: those in `text_config` for a multimodal model.
///
/// # Errors
/// [`ModelError::Key`] where there are none.
pub fn language_model(config: &Json) -> Result<&Map<String, Json>, ModelError> {
    let inner = config.get("text_config").filter(|inner| inner.is_object());
    inner
        .unwrap_or(config)
        .as_object()
        .ok_or_else(|| ModelError::Key {
            key: "config.json".to_owned(),
            problem: "holds no settings".to_owned(),
        })
}

fn default_of(defaults: &[(&'static str, f64)], key: &str) -> Option<f64> {
    let found = defaults.iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| *value)
}
