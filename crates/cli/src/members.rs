//! Members that take part: models named by the user, or the bundled three.

use std::path::Path;
use std::time::Duration;

use conclave_member::{Member, MemberError};
use conclave_model::{Backend, LoadOptions};
use conclave_remote::{Address, Key, Options, Remote, Server, Template, key};
use conclave_rounds::{AnyMember, TakePart};
use conclave_weights::{Disk, Memory, Source};

use crate::args::Members;
use crate::device::Device;
use crate::failure::Failure;
use crate::strengths;

/// Bundled members: name and GGUF file.
const BUNDLED: [(&str, &[u8]); 3] = [
    ("Ada", include_bytes!("../../../web/members/ada.gguf")),
    ("Quill", include_bytes!("../../../web/members/quill.gguf")),
    ("Juno", include_bytes!("../../../web/members/juno.gguf")),
];

/// Loads the members, all of which must run here.
///
/// # Errors
/// [`Failure::File`] and [`Failure::Model`], with the file; [`Failure::Usage`] if one is behind a
/// server.
pub fn load(members: &Members, backend: &dyn Backend) -> Result<Vec<Member>, Failure> {
    if let Some((_, address)) = members.remote.first() {
        return Err(Failure::Usage(format!(
            "{address} lives behind a server, and takes part in `conclave chat` and `conclave serve` only"
        )));
    }
    local(members, backend)
}

/// Loads the members, connects to those behind servers, and autotunes a GPU's kernels for them.
/// Calls `tell` with each remote member.
pub fn load_any(
    members: &Members,
    device: &Device,
    mut tell: impl FnMut(&Remote),
) -> Result<Vec<AnyMember>, Failure> {
    // Fails before gigabytes are read if a server can't be reached.
    let mut remote = Vec::new();
    for (place, text) in &members.remote {
        let member = connect(text, members)?;
        tell(&member);
        remote.push((*place, member));
    }
    let local = local(members, device.backend())?;
    pollster::block_on(device.tune(&local))?;
    let mut all: Vec<AnyMember> = local.into_iter().map(AnyMember::from).collect();
    // In the order in which they were named.
    for (place, member) in remote {
        all.insert(place.min(all.len()), member.into());
    }
    if !all.iter().any(TakePart::drafts) {
        let names: Vec<&str> = all.iter().map(TakePart::name).collect();
        return Err(Failure::Usage(format!(
            "no member drafts: {} can only judge; also name a member that writes, a model's file or another server",
            names.join(", ")
        )));
    }
    Ok(all)
}

fn connect(text: &str, members: &Members) -> Result<Remote, Failure> {
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
    let template = match &members.template {
        Some(path) => Some(Template::new(&String::from_utf8_lossy(&read(path)?))?),
        None => None,
    };
    let server = Server::connect(
        address,
        Options {
            key,
            template,
            patience: Duration::from_secs_f32(members.patience),
        },
    )?;
    let model = server
        .model()
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default();
    let name = model.trim_end_matches(".gguf").to_owned();
    Ok(Remote::new(&name, server))
}

fn local(members: &Members, backend: &dyn Backend) -> Result<Vec<Member>, Failure> {
    let mut loaded = load_all(members, backend)?;
    for member in &mut loaded {
        member.set_thinking(members.thinking);
    }
    if let Some(path) = &members.trust {
        strengths::apply(path, &mut loaded)?;
    }
    Ok(loaded)
}

fn load_all(members: &Members, backend: &dyn Backend) -> Result<Vec<Member>, Failure> {
    if members.bundled() {
        return BUNDLED
            .into_iter()
            .map(|(name, file)| {
                let source = Memory::file(format!("{name}.gguf"), file.to_vec());
                Ok(load_from(name, &source, backend, members.options())?)
            })
            .collect();
    }
    members
        .files
        .iter()
        .zip(&members.names)
        .map(|(path, name)| open(path, name, backend, members.options()))
        .collect()
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
pub fn open(
    path: &Path,
    name: &str,
    backend: &dyn Backend,
    options: LoadOptions,
) -> Result<Member, Failure> {
    let source = source(path)?;
    load_from(name, source.as_ref(), backend, options).map_err(|source| Failure::Model {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn load_from(
    name: &str,
    source: &dyn Source,
    backend: &dyn Backend,
    options: LoadOptions,
) -> Result<Member, MemberError> {
    pollster::block_on(Member::load(name, source, backend, options, &mut |_| ()))
}

/// Opens the files of the model at `path`: a GGUF file with its other parts, or a Hugging Face
/// folder; `-` is a GGUF file on standard input.
pub fn source(path: &Path) -> Result<Box<dyn Source>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(Memory::file("input.gguf", read(path)?)));
    }
    Ok(Box::new(Disk::open(path)?))
}

/// Reads a whole file; `-` is standard input.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    bytes.map_err(|source| Failure::file(path, source))
}
