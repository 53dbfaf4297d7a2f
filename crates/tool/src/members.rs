//! Members that take part: models named by the user, or the bundled three.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conclave_member::{Member, MemberError};
use conclave_model::{Backend, LoadOptions};
use conclave_remote::{Address, Key, Options, Remote, RemoteError, Server, Template, key};
use conclave_rounds::{AnyMember, Away, TakePart};
use conclave_text::{TextError, template_in};
use conclave_weights::{
    Checkpoint, CheckpointError, Disk, Memory, Source, SourceFile, refuse_no_template,
};

use crate::args::Members;
use crate::device::Device;
use crate::failure::Failure;
use crate::progress::{say, tell_remote};
use crate::strengths;

/// Bundled members: name and GGUF file.
const BUNDLED: [(&str, &[u8]); 3] = [
    ("Ada", include_bytes!(concat!(env!("OUT_DIR"), "/ada.gguf"))),
    (
        "Quill",
        include_bytes!(concat!(env!("OUT_DIR"), "/quill.gguf")),
    ),
    (
        "Juno",
        include_bytes!(concat!(env!("OUT_DIR"), "/juno.gguf")),
    ),
];

/// UTF-8's, which editors on Windows write; no model's file begins so.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Loads the members, all of which must run here.
///
/// # Errors
/// [`Failure::File`] and [`Failure::Model`], with the file; [`Failure::Usage`] if one is behind a
/// server.
pub fn load(members: &Members, backend: &dyn Backend) -> Result<Vec<Member>, Failure> {
    if let Some((_, address)) = members.remote.first() {
        return Err(Failure::Usage(format!(
            "{address} lives behind a server, and takes part in `conclave chat` and `conclave \
            serve` only"
        )));
    }
    let templates = Templates::read(members)?;
    let all = load_all(members, &templates, backend)?;
    settled(members, all.into_iter().collect::<Result<_, _>>()?)
}

/// Loads the members, connects to those behind servers, and autotunes a GPU's kernels for them.
pub fn load_any(members: &Members, device: &Device) -> Result<Vec<AnyMember>, Failure> {
    // Fails before gigabytes are read if a server refuses, or none can be reached.
    let templates = Templates::read(members)?;
    if let (Some(path), true) = (&members.keys, members.remote.is_empty()) {
        return Err(Failure::Usage(format!(
            "--keys {}: no member lives behind a server, which alone has a key",
            path.display()
        )));
    }
    // One that can't do what is asked costs no other its place.
    let (mut remote, mut away) = (Vec::new(), Vec::new());
    for (place, text) in &members.remote {
        let link = Link::read(text, members, templates.of_servers.as_deref())?;
        match link.connect() {
            Ok(member) => remote.push((*place, member)),
            Err(error) => away.push((*place, link, error)),
        }
    }
    if remote.is_empty() && members.files.is_empty() && !away.is_empty() {
        return Err(away.swap_remove(0).2.into());
    }
    for (_, _, error) in &away {
        let again = match error.passes() {
            true => ", until it is there: it is tried again before later answers",
            false => "",
        };
        say(&format!("{error}; the others take part without it{again}"));
    }
    let (mut local, mut failed) = (Vec::new(), Vec::new());
    for outcome in load_all(members, &templates, device.backend())? {
        match outcome {
            Ok(member) => local.push(member),
            Err(failure) if failure.is_of_a_member() => failed.push(failure),
            Err(failure) => return Err(failure),
        }
    }
    if local.is_empty() && remote.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0));
    }
    for failure in failed {
        say(&format!("{failure}; the others take part without it"));
    }
    for member in local.iter().filter(|member| !member.has_template()) {
        say(&format!(
            "{} has no chat template, as a base model: it continues questions and answers. Give \
            it one with --template {}=FILE.",
            member.name(),
            member.name()
        ));
    }
    let local = settled(members, local)?;
    pollster::block_on(device.tune(&local))?;
    let mut all: Vec<AnyMember> = local.into_iter().map(AnyMember::from).collect();
    let mut servers: Vec<(usize, AnyMember)> = Vec::new();
    servers.extend(remote.into_iter().map(|(place, one)| (place, one.into())));
    servers.extend(
        away.into_iter()
            .map(|(place, link, error)| (place, link.away(error).into())),
    );
    servers.sort_by_key(|&(place, _)| place);
    // In the order in which they were named.
    for (place, member) in servers {
        all.insert(place.min(all.len()), member);
    }
    if !all.iter().any(TakePart::drafts) {
        let here = all.iter().filter(|one| !matches!(one, AnyMember::Away(_)));
        let names: Vec<&str> = here.map(TakePart::name).collect();
        return Err(Failure::Usage(format!(
            "no member drafts: {} can only judge; also name a member that writes, a model's file \
            or another server",
            names.join(", ")
        )));
    }
    Ok(all)
}

/// A template that replaces a model's own.
struct Given {
    /// As on the command line: its file, with the member's name.
    option: String,
    source: String,
}

/// The sources of templates that the command line gives.
struct Templates {
    named: Vec<(String, Given)>,
    /// Template of the only member.
    of_one: Option<Given>,
    of_servers: Option<String>,
}

impl Templates {
    /// Reads the files; one without a member is refused.
    fn read(members: &Members) -> Result<Self, Failure> {
        let mut templates = Self {
            named: Vec::new(),
            of_one: None,
            of_servers: None,
        };
        let names = names(members);
        for given in &members.templates {
            let named = given.split_once('=').and_then(|(name, path)| {
                let known = names.iter().find(|one| one.eq_ignore_ascii_case(name))?;
                Some((known.clone(), path))
            });
            if named.is_none() {
                refuse_unknown(given, &names, members)?;
            }
            let path = named.as_ref().map_or(given.as_str(), |(_, path)| path);
            let source = || -> Result<String, Failure> {
                let file = read(Path::new(path))?;
                refuse_no_template(&format!("--template {given}"), &file)?;
                let file = String::from_utf8_lossy(&file);
                let template = template_in(&file).ok_or_else(|| {
                    Failure::Usage(format!(
                        "--template {given}: it is JSON without a `chat_template`; name a file of \
                         Jinja, or the chat_template.json or tokenizer_config.json of a model that \
                         has one"
                    ))
                })?;
                Ok(template.into_owned())
            };
            match named {
                Some((name, _)) => templates.named.push((name, Given::new(given, source()?))),
                None if !members.remote.is_empty() => templates.of_servers = Some(source()?),
                None if names.len() == 1 => {
                    templates.of_one = Some(Given::new(given, source()?));
                }
                None => {
                    return Err(Failure::Usage(format!(
                        "--template {given}: write NAME=FILE for the member that it is of; there \
                        are {}",
                        names.join(", ")
                    )));
                }
            }
        }
        Ok(templates)
    }

    /// That of a member whose model runs here.
    fn of_member(&self, name: &str) -> Option<&Given> {
        let named = self.named.iter().find(|(one, _)| one == name);
        named.map(|(_, given)| given).or(self.of_one.as_ref())
    }
}

/// Refuses a template that names a member that is not there, unless it is a file's whole name.
fn refuse_unknown(given: &str, names: &[String], members: &Members) -> Result<(), Failure> {
    let name = given.split_once('=').map(|(name, _)| name);
    let name = name.filter(|name| !name.contains(['/', '\\']) && !Path::new(given).exists());
    let Some(name) = name else {
        return Ok(());
    };
    let there = match names.join(", ") {
        names if names.is_empty() => "none runs here".to_owned(),
        names => format!("there are {names}"),
    };
    let servers = match members.remote.is_empty() {
        true => "",
        false => "; write FILE alone for members that a server has",
    };
    Err(Failure::Usage(format!(
        "--template {given}: no member {name}; {there}{servers}"
    )))
}

impl Given {
    fn new(option: &str, source: String) -> Self {
        Self {
            option: format!("--template {option}"),
            source,
        }
    }
}

/// Address and options of a member's server, to connect now or later.
#[derive(Clone)]
struct Link {
    address: Address,
    options: Options,
    /// Its model's name, once that is known.
    name: String,
}

impl Link {
    /// Reads the address of a member, and its key.
    fn read(text: &str, members: &Members, template: Option<&str>) -> Result<Self, Failure> {
        let address = Address::read(text)?;
        let mut key = None;
        if let Some(path) = &members.keys {
            let lines = String::from_utf8_lossy(&read(path)?).into_owned();
            key = key::among(&lines, &address)?;
        }
        if key.is_none() {
            let variable = std::env::var(key::variable(&address)).ok();
            let given = variable.filter(|key| !key.is_empty());
            key = given.map(|key| Key::new(&key)).transpose()?;
        }
        Ok(Self {
            name: short(address.model()),
            address,
            options: Options {
                key,
                template: template.map(Template::new).transpose()?,
                patience: Duration::from_secs_f32(members.patience),
                ..Options::default()
            },
        })
    }

    fn connect(&self) -> Result<Remote, RemoteError> {
        let server = Server::connect(self.address.clone(), self.options.clone())?;
        let name = match self.name.as_str() {
            "" => short(server.model()),
            name => name.to_owned(),
        };
        Ok(Remote::new(&name, server))
    }

    /// The member as long as its server can't be used. Its name stays.
    fn away(mut self, error: RemoteError) -> Away {
        if self.name.is_empty() {
            self.name = self.address.host().to_owned();
        }
        let name = self.name.clone();
        // The ensemble may have renamed it.
        let connect = move |name: &str| {
            let mut member = self.connect()?;
            member.set_name(name);
            tell_remote(&member);
            Ok(member)
        };
        Away::new(&name, error, Arc::new(connect))
    }
}

/// A model's name without its folders and the ending of its file.
fn short(model: &str) -> String {
    let name = model.rsplit(['/', '\\']).next().unwrap_or_default();
    name.trim_end_matches(".gguf").to_owned()
}

/// Members as the command line has them beside their files.
fn settled(members: &Members, mut loaded: Vec<Member>) -> Result<Vec<Member>, Failure> {
    for member in &mut loaded {
        member.set_thinking(members.thinking);
    }
    if let Some(path) = &members.trust {
        strengths::apply(path, &mut loaded)?;
    }
    Ok(loaded)
}

/// Result of loading each member that runs here.
fn load_all(
    members: &Members,
    templates: &Templates,
    backend: &dyn Backend,
) -> Result<Vec<Result<Member, Failure>>, Failure> {
    let options = members.options();
    if members.bundled() {
        let bundled = BUNDLED.into_iter().map(|(name, file)| {
            let source = Memory::file(format!("{name}.gguf"), file.to_vec());
            let template = templates.of_member(name);
            load_from(name, None, &source, backend, options, template)
        });
        return Ok(bundled.collect());
    }
    let files = members.files.iter().zip(&members.names);
    let opened =
        files.map(|(path, name)| open(templates.of_member(name), path, name, backend, options));
    Ok(opened.collect())
}

pub fn names(members: &Members) -> Vec<String> {
    if members.bundled() {
        return BUNDLED.map(|(name, _)| name.to_owned()).to_vec();
    }
    members.names.clone()
}

/// Sizes of the members' files, which distinguish one `model.gguf` from another; 0 if unknown.
pub fn bytes(members: &Members) -> Vec<u64> {
    if members.bundled() {
        return BUNDLED.map(|(_, file)| file.len() as u64).to_vec();
    }
    let of = |path: &Path| match std::fs::read_dir(path) {
        Ok(files) => files
            .filter_map(|file| file.ok()?.metadata().ok())
            .map(|file| file.len())
            .sum(),
        Err(_) => std::fs::metadata(path).map_or(0, |file| file.len()),
    };
    members.files.iter().map(|path| of(path)).collect()
}

/// Loads one member from a file.
///
/// # Errors
/// [`Failure::File`] and [`Failure::Model`], with the file.
fn open(
    template: Option<&Given>,
    path: &Path,
    name: &str,
    backend: &dyn Backend,
    options: LoadOptions,
) -> Result<Member, Failure> {
    let source = source(path)?;
    load_from(
        name,
        Some(path),
        source.as_ref(),
        backend,
        options,
        template,
    )
}

/// Loads one member from a source; `path` is its file, if it has one.
fn load_from(
    name: &str,
    path: Option<&Path>,
    source: &dyn Source,
    backend: &dyn Backend,
    options: LoadOptions,
    template: Option<&Given>,
) -> Result<Member, Failure> {
    let mut silent = |_| ();
    let own = template.map(|given| given.source.as_str());
    let load = Member::load_with(own, name, source, backend, options, &mut silent);
    pollster::block_on(load).map_err(|source| {
        // The file at fault is the template that was given, and not the model.
        let path = match (&source, template) {
            (MemberError::Text(TextError::TemplateSyntax { .. }), Some(given)) => {
                Some(given.option.as_ref())
            }
            _ => path,
        };
        match path {
            Some(path) => Failure::Model {
                path: path.to_owned(),
                source: Box::new(source),
            },
            None => source.into(),
        }
    })
}

/// Opens the files of the model at `path`: a GGUF file with its other parts, or a Hugging Face
/// folder; `-` is a GGUF file on standard input.
pub fn source(path: &Path) -> Result<Box<dyn Source>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(Memory::file("input.gguf", read(path)?)));
    }
    let disk = Disk::open(path)?;
    // One file, or the parts of one model.
    if path.is_file() && (disk.files().len() == 1 || has_ending(path, "gguf")) {
        return Ok(Box::new(disk));
    }
    if path.is_file() && !has_ending(path, "safetensors") {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        say(&format!(
            "{} is a file of a model: the model is the folder {}, which is taken",
            path.display(),
            folder.unwrap_or(Path::new(".")).display()
        ));
    }
    tell_left_out(&disk);
    Ok(Box::new(disk))
}

fn has_ending(path: &Path, ending: &str) -> bool {
    let found = path.extension();
    found.is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Reports the files of a folder that are left out; reads headers only where there may be some.
fn tell_left_out(disk: &Disk) {
    let count = |ending: &str| {
        let files = disk.files().iter();
        files
            .filter(|file| has_ending(Path::new(&file.name), ending))
            .count()
    };
    let adapter = |file: &SourceFile| file.name == "adapter_config.json";
    let (gguf, safetensors) = (count("gguf"), count("safetensors"));
    let several = gguf > 1 || gguf == 1 && safetensors > 0;
    if !several && !disk.files().iter().any(adapter) {
        return;
    }
    // A fault is reported by who loads the model.
    let Ok(checkpoint) = pollster::block_on(Checkpoint::open(disk)) else {
        return;
    };
    for file in checkpoint.left_out() {
        match file {
            CheckpointError::NoModel { file, what, .. } => {
                say(&format!("{file} {what}; it is left out"));
            }
            fault => say(&format!("{fault}; it is left out")),
        }
    }
}

/// Reads a whole file, without a byte order mark, and a text in UTF-16 as UTF-8; `-` is standard
/// input.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let bytes = bytes.map_err(|source| Failure::file(path, source))?;
    Ok(decoded(bytes))
}

/// The bytes without a byte order mark, as UTF-8 if that is UTF-16's, which PowerShell's `>`
/// writes; no model's file begins so.
fn decoded(mut bytes: Vec<u8>) -> Vec<u8> {
    let number = match bytes[..] {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            if bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            return bytes;
        }
    };
    let pairs = bytes[2..].chunks_exact(2);
    // Half a number at the end is as unsound as half a pair of them.
    let rest = (!pairs.remainder().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
    let letters = char::decode_utf16(pairs.map(|pair| number([pair[0], pair[1]])));
    let letters = letters.map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER));
    letters.chain(rest).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn texts_are_read_by_their_byte_order_mark() {
        let text = "{\"ä\": \"😀\"}";
        let numbers = || std::iter::once(0xfeff).chain(text.encode_utf16());
        let mut half: Vec<u8> = numbers().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decoded(half.clone()), text.as_bytes());
        let other = numbers().flat_map(u16::to_be_bytes).collect();
        assert_eq!(decoded(other), text.as_bytes());
        assert_eq!(decoded(format!("\u{feff}{text}").into()), text.as_bytes());
        assert_eq!(decoded(text.into()), text.as_bytes());
        assert_eq!(decoded(b"GGUF\xff\xfe".to_vec()), b"GGUF\xff\xfe");
        half.push(1);
        assert_eq!(decoded(half), format!("{text}\u{fffd}").as_bytes());
        assert_eq!(decoded(b"\xff\xfe\0\xd8".to_vec()), "\u{fffd}".as_bytes());
    }
}
