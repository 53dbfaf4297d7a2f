//! `cargo xtask book`: the documents as one book.
//!
//! Chapters are read on the repository's host as well, and some lie in its root or beside the code
//! that they describe. So they stay there, and this task copies them: links between chapters lead
//! to chapters, links to other files to the repository.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::process;
use crate::workspace::Workspace;

/// Contents, with a link to each chapter.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Folder whose files keep their places in the book.
const DOCS: &str = "docs/";

/// mdBook that the book is built with.
const MDBOOK: &str = "mdbook@0.5.4";

/// Gathers the chapters and builds the book into `out`.
///
/// # Errors
/// If a chapter is missing, mdBook is not installed or fails.
pub fn make(workspace: &Workspace, out: &Path) -> Result<()> {
    let out = std::path::absolute(out)?;
    let source = workspace.target.join("book-source");
    gather(&workspace.root, &source)?;
    let Some(mdbook) = process::find("mdbook") else {
        bail!("mdBook is not installed: cargo install --locked {MDBOOK}");
    };
    process::run(
        Command::new(mdbook)
            .args(["build", "--dest-dir"])
            .args([&out, &source]),
    )?;
    println!("\nReady: {}", out.join("index.html").display());
    Ok(())
}

/// Writes mdBook's settings and every chapter, with its pictures, to the folder `source`.
fn gather(root: &Path, source: &Path) -> Result<()> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    let settings = read("docs/book.toml")?;
    let repository = settings
        .split_once("git-repository-url = \"")
        .and_then(|(_, rest)| rest.split('"').next())
        .ok_or_else(|| anyhow!("docs/book.toml names no repository"))?;
    let chapters = chapters(&read(SUMMARY)?)?;
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    let pages = source.join("pages");
    let write = |place: &str, bytes: &[u8]| -> Result<()> {
        let file = pages.join(place);
        fs::create_dir_all(file.parent().unwrap_or(&pages))?;
        Ok(fs::write(file, bytes)?)
    };
    for (file, place) in &chapters {
        let text = read(file)?;
        let mut moved = text.clone();
        // From the end, so that ranges stay true.
        let apart = links(&text).into_iter().rev();
        for link in apart.filter(|link| !link.target.starts_with('#')) {
            let Some((target, anchor)) = link.file(file)? else {
                continue;
            };
            // The contents are beside every page, and are none.
            let target = match target.as_str() {
                SUMMARY => format!("{DOCS}README.md"),
                _ => target,
            };
            let there = match chapters.get(&target) {
                Some(there) => between(place, there),
                None if link.picture => {
                    write(&target, &fs::read(root.join(&target))?)?;
                    between(place, &target)
                }
                None if root.join(&target).is_dir() => format!("{repository}/tree/main/{target}"),
                None => format!("{repository}/blob/main/{target}"),
            };
            moved.replace_range(link.range, &(there + &anchor));
        }
        write(place, moved.as_bytes())?;
    }
    Ok(fs::write(source.join("book.toml"), settings)?)
}

/// Chapters by their files in the repository, with their places in the book; the contents, too.
fn chapters(summary: &str) -> Result<BTreeMap<String, String>> {
    let mut chapters = BTreeMap::from([(SUMMARY.to_owned(), "SUMMARY.md".to_owned())]);
    for link in links(summary) {
        let (file, _) = link
            .file(SUMMARY)?
            .ok_or_else(|| anyhow!("{SUMMARY} links to {}, which is no chapter", link.target))?;
        let place = match (file.strip_prefix(DOCS), file.strip_suffix("/README.md")) {
            // mdBook calls a README `index.html`, but not in links to it.
            (Some("README.md"), _) => "index.md".to_owned(),
            (Some(place), _) => place.to_owned(),
            (None, Some(folder)) => format!("{folder}.md"),
            (None, None) if file == "README.md" => "conclave.md".to_owned(),
            (None, None) => file.to_lowercase(),
        };
        chapters.insert(file, place);
    }
    Ok(chapters)
}

/// Link or picture of a document.
struct Link {
    target: String,
    /// Bytes of the target in the document.
    range: Range<usize>,
    picture: bool,
}

impl Link {
    /// File that a link in `document` leads to, from the repository's root, and the anchor in it
    /// with its `#`. `None` for addresses.
    ///
    /// # Errors
    /// If it leads out of the repository.
    fn file(&self, document: &str) -> Result<Option<(String, String)>> {
        let target = &self.target;
        if target.contains(':') {
            return Ok(None);
        }
        let (path, anchor) = match target.split_once('#') {
            Some((path, anchor)) => (path, format!("#{anchor}")),
            None => (target.as_str(), String::new()),
        };
        if path.is_empty() {
            return Ok(Some((document.to_owned(), anchor)));
        }
        let mut parts: Vec<&str> = document.split('/').collect();
        parts.pop();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    let out = || anyhow!("{document}: {target} leads out of the repository");
                    parts.pop().ok_or_else(out)?;
                }
                part => parts.push(part),
            }
        }
        Ok(Some((parts.join("/"), anchor)))
    }
}

/// Links and pictures of a document, in their order.
fn links(text: &str) -> Vec<Link> {
    let mut found: Vec<Link> = parse(text)
        .filter_map(|(event, range)| {
            let (target, picture) = match event {
                Event::Start(Tag::Link { dest_url, .. }) => (dest_url.into_string(), false),
                Event::Start(Tag::Image { dest_url, .. }) => (dest_url.into_string(), true),
                _ => return None,
            };
            // Targets follow their texts, which may have links or pictures in them.
            let start = range.start + text[range].rfind(&format!("]({target}"))? + 2;
            let range = start..start + target.len();
            Some(Link {
                target,
                range,
                picture,
            })
        })
        .collect();
    found.sort_by_key(|link| link.range.start);
    found
}

fn parse(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter()
}

/// Relative link from one place to another.
fn between(from: &str, to: &str) -> String {
    let up = "../".repeat(from.matches('/').count());
    up + to
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pulldown_cmark::TagEnd;

    use super::*;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Documents that git knows.
    fn documents() -> Vec<String> {
        let mut git = Command::new("git");
        git.args(["ls-files", "*.md"]).current_dir(root());
        let listed = process::capture(&mut git).unwrap();
        let files = listed.lines().filter(|file| root().join(file).exists());
        files.map(str::to_owned).collect()
    }

    /// Anchors of a document's headings, as hosts and mdBook make them.
    fn anchors(text: &str) -> BTreeSet<String> {
        let (mut anchors, mut heading) = (BTreeSet::new(), None::<String>);
        for (event, _) in parse(text) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        *heading += &text;
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let heading = heading.take().unwrap_or_default().to_lowercase();
                    let kept = heading
                        .chars()
                        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                    let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
                    let again = (1..).map(|number| format!("{anchor}-{number}"));
                    let mut names = std::iter::once(anchor.clone()).chain(again);
                    let free = names.find(|name| !anchors.contains(name));
                    anchors.extend(free);
                }
                _ => {}
            }
        }
        anchors
    }

    #[test]
    fn every_document_is_a_chapter() {
        let summary = fs::read_to_string(root().join(SUMMARY)).unwrap();
        let chapters = chapters(&summary).unwrap();
        for document in documents().iter().filter(|file| file.starts_with(DOCS)) {
            assert!(
                chapters.contains_key(document),
                "{SUMMARY} lacks {document}"
            );
        }
        let places: BTreeSet<_> = chapters
            .values()
            .map(|place| place.to_lowercase())
            .collect();
        assert_eq!(places.len(), chapters.len(), "two chapters have one place");
        let parts: Vec<_> = summary
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .collect();
        let wanted = "Summary Start Embed Models Serve Method Measure Architecture Contribute";
        assert_eq!(parts.join(" "), wanted);
    }

    #[test]
    fn every_link_and_anchor_leads_somewhere() {
        let mut seen = 0;
        let mut faults = Vec::new();
        for document in documents() {
            let text = fs::read_to_string(root().join(&document)).unwrap();
            for link in links(&text) {
                let Some((file, anchor)) = link.file(&document).unwrap() else {
                    continue;
                };
                seen += 1;
                let place = root().join(&file);
                let there = match (anchor.strip_prefix('#'), file.ends_with(".md")) {
                    (Some(anchor), true) => {
                        fs::read_to_string(&place).is_ok_and(|text| anchors(&text).contains(anchor))
                    }
                    _ => place.exists(),
                };
                if !there {
                    faults.push(format!("{document}: {}", link.target));
                }
            }
        }
        assert!(faults.is_empty(), "lead nowhere: {faults:#?}");
        assert!(seen > 100, "{seen} links");
    }

    #[test]
    fn links_lead_to_chapters_or_to_the_repository() {
        let folder = std::env::temp_dir().join(format!("conclave-book-{}", std::process::id()));
        let root = folder.join("root");
        let write = |file: &str, text: &str| {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        };
        write(
            "docs/book.toml",
            "[output.html]\ngit-repository-url = \"https://host/r\"\n",
        );
        write(
            SUMMARY,
            "[Book](README.md)\n\n- [Top](../README.md)\n\
             - [Deep](deep/page.md)\n- [Apart](../a/b/README.md)\n",
        );
        write(
            "docs/README.md",
            "[top](../README.md#use), [here](#a), [code](../src/a.rs)\n",
        );
        write(
            "README.md",
            "[![x](a.png)](docs/deep/page.md \"t\") [s](src) `[no](no.md)` <http://a.b>\n",
        );
        write(
            "docs/deep/page.md",
            "![x](../../a.png) [up](../README.md)\n\n```\n[no](no.md)\n```\n",
        );
        write("a/b/README.md", "[contents](../../docs/SUMMARY.md)\n");
        write("a.png", "picture");
        write("src/a.rs", "");
        let source = folder.join("source");
        gather(&root, &source).unwrap();
        let page = |file: &str| fs::read_to_string(source.join("pages").join(file)).unwrap();
        assert_eq!(
            page("SUMMARY.md"),
            "[Book](index.md)\n\n- [Top](conclave.md)\n- [Deep](deep/page.md)\n- [Apart](a/b.md)\n"
        );
        assert_eq!(
            page("index.md"),
            "[top](conclave.md#use), [here](#a), [code](https://host/r/blob/main/src/a.rs)\n"
        );
        assert_eq!(
            page("conclave.md"),
            "[![x](a.png)](deep/page.md \"t\") [s](https://host/r/tree/main/src) \
             `[no](no.md)` <http://a.b>\n"
        );
        assert_eq!(
            page("deep/page.md"),
            "![x](../a.png) [up](../index.md)\n\n```\n[no](no.md)\n```\n"
        );
        assert_eq!(page("a/b.md"), "[contents](../index.md)\n");
        assert_eq!(page("a.png"), "picture");
        write("docs/README.md", "[out](../../elsewhere.md)\n");
        assert!(gather(&root, &source).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn anchors_are_those_of_hosts() {
        let text = "# `conclave serve`, or: a “server”\n## Two  words\n\
            ## One\n## One\n```\n# no\n```\n";
        let expected = ["conclave-serve-or-a-server", "one", "one-1", "two--words"];
        assert!(
            anchors(text).iter().eq(expected.iter()),
            "{:?}",
            anchors(text)
        );
    }
}
