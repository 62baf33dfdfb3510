//! Models of the Hugging Face Hub, as an argument names them, and all their files in the shared cache.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use super::Report;
use super::download::{self, FetchOptions};
use super::error::{Error, Result};
use super::hash::{Pin, is_hex};
use super::http::Ask;
use super::hub::{self, Hub, HubFile, Wanted, quoted};
use crate::files::{read_limited, stays_inside};

/// More than the list of a repository's files has, in bytes.
const LIST_LIMIT: u64 = 16 << 20;

/// The most files of a model.
pub(super) const MAX_FILES: usize = 256;

/// The endings of a model's files; nothing else is fetched or sent. None of them can hold code.
const ENDINGS: [&str; 4] = [".safetensors", ".toml", ".json", ".md"];

/// Whether a model may have a file of this name.
pub(super) fn is_of_a_model(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// A model of the Hub: `hub:OWNER/NAME`, or `hub:OWNER/NAME@REVISION`, and behind that `/PATH` of a file or
/// folder in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubModel {
    repo: String,
    revision: String,
    path: String,
}

impl HubModel {
    /// What its name begins with.
    pub const PREFIX: &str = "hub:";

    /// All of a repository `OWNER/NAME` at a branch, a tag or a commit.
    ///
    /// # Errors
    /// [`Error::HubName`].
    pub fn new(repo: &str, revision: &str) -> Result<Self> {
        let of_revision = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let names = repo.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name));
        if !names || !stays_inside(revision) || !revision.chars().all(of_revision) {
            return Err(Error::HubName { name: format!("{}{repo}@{revision}", Self::PREFIX) });
        }
        Ok(Self { repo: repo.into(), revision: revision.into(), path: String::new() })
    }

    /// `OWNER/NAME`.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }
}

/// Whether the Hub may call a user, an organisation or a repository so.
fn is_name(name: &str) -> bool {
    (1..=96).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
        && !name.contains("..")
        && !name.contains("--")
}

impl FromStr for HubModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::HubName { name: text.into() };
        let (owner, rest) =
            text.strip_prefix(Self::PREFIX).and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
        let (repository, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, revision) = repository.split_once('@').unwrap_or((repository, "main"));
        let model = Self::new(&format!("{owner}/{name}"), &revision.replace("%2F", "/"));
        let inside = path.is_empty() || stays_inside(path);
        Ok(Self { path: path.into(), ..model.ok().filter(|_| inside).ok_or_else(wrong)? })
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}@{}", Self::PREFIX, self.repo, self.revision.replace('/', "%2F"))?;
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

/// What the Hub tells of a revision.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
    size: u64,
}

/// The folder of the Hub's cache that holds the model, or the file or folder in it that is meant. What is not
/// there is fetched: the files of a model, which end in `.safetensors`, `.toml`, `.json` and `.md`, each of the
/// size and the hash that the Hub states.
///
/// # Errors
/// [`Error::Refused`] for a repository that is not there or not for everybody, [`Error::NotCached`] where only
/// the cache is used, [`Error::Protocol`] for a list that names files elsewhere; else those of [`super::get`].
pub fn snapshot(model: &HubModel, hub: &Hub, options: &FetchOptions, report: Report<'_>) -> Result<PathBuf> {
    let kept = hub.kept(&model.repo, &model.revision);
    let commit = if hub.offline || options.offline {
        cached(model, hub)?
    } else {
        let commit = fetch(model, hub, options, report)?;
        kept.create_ref(&commit).map_err(Error::io("write the revision of", &hub.folder(&model.repo)))?;
        commit
    };
    // Joined to an empty path it would end with a slash.
    let folder = kept.pointer_path(&commit);
    let meant = if model.path.is_empty() { folder } else { folder.join(&model.path) };
    match meant.exists() {
        true => Ok(meant),
        false if hub.offline || options.offline => {
            Err(Error::NotCached { model: model.to_string(), sought: meant })
        }
        false => Err(Error::NotInModel { model: model.to_string() }),
    }
}

/// The commit that the cache knows the revision as.
fn cached(model: &HubModel, hub: &Hub) -> Result<String> {
    let known = hub.folder(&model.repo).join("refs").join(&model.revision);
    let named = read_limited(&known, 1 << 10).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let commit = named.unwrap_or_else(|| model.revision.clone()).trim().to_owned();
    if is_hex(&commit, 40) {
        return Ok(commit);
    }
    Err(Error::NotCached { model: model.to_string(), sought: known })
}

/// Fetches what is not in the cache; the commit.
fn fetch(model: &HubModel, hub: &Hub, options: &FetchOptions, report: Report<'_>) -> Result<String> {
    let HubModel { repo, revision, .. } = model;
    let (root, kept) = (hub.folder(repo), hub.kept(repo, revision));
    let url = hub.url(&format!("api/models/{repo}/revision/{}?blobs=true", quoted(revision, false)));
    let protocol = |detail: String| Error::Protocol { path: root.clone(), url: url.clone(), detail };
    let bearer = hub.token.as_deref();
    let ask = Ask { path: &root, url: &url, resume: None, stall: options.stall, bearer, facts: false };
    let answer = download::describe(&ask, options, report).map_err(|error| refused(model, error))?;
    let text = answer.bytes(LIST_LIMIT).map_err(protocol)?;
    let list: Listing = serde_json::from_slice(&text)
        .map_err(|error| protocol(format!("it is no list of a model's files: {error}")))?;
    let Listing { sha: commit, siblings } = list;
    if !is_hex(&commit, 40) {
        return Err(protocol("the Hub names no commit (sha)".into()));
    }
    let files: Vec<Sibling> = siblings.into_iter().filter(|file| is_of_a_model(&file.rfilename)).collect();
    if files.len() > MAX_FILES {
        return Err(protocol(format!("it has {} files, and a model has {MAX_FILES} at most", files.len())));
    }
    // What is refused is refused before anything is fetched.
    for Sibling { rfilename: name, .. } in &files {
        if !stays_inside(name) || name.contains('\\') {
            return Err(protocol(format!("it lists {name:?}, which is no place in a folder of its own")));
        }
    }
    for Sibling { rfilename, size, blob_id, lfs } in files {
        let size = lfs.as_ref().map(|file| file.size).or(size);
        let size = size.ok_or_else(|| protocol(format!("it tells no size of {rfilename}")))?;
        if size > options.most_unstated {
            let limit = options.most_unstated;
            return Err(protocol(format!("{rfilename} has {size} bytes, and {limit} at most are fetched")));
        }
        let pointer = kept.pointer_path(&commit).join(&rfilename);
        if pointer.exists() {
            check_size(&pointer, size)?;
            continue;
        }
        let pin = lfs.as_ref().map_or(Pin::FirstUse, |file| Pin::Sha256(file.sha256.clone()));
        let tag = lfs.map(|file| file.sha256).or(blob_id);
        let source = HubFile { repo: repo.clone(), revision: commit.clone(), file: rfilename };
        let wanted = Wanted { source: &source, pin: &pin, size: Some(size), tag: tag.as_deref() };
        hub::into_cache(&wanted, hub, options, report).map_err(|error| refused(model, error))?;
    }
    Ok(commit)
}

fn check_size(path: &Path, expected: u64) -> Result<()> {
    let actual = fs::metadata(path).map_err(Error::io("read", path))?.len();
    if actual == expected {
        return Ok(());
    }
    let origin = "the Hub's cache; remove that file from it and run again: it".to_owned();
    Err(Error::Size { path: path.into(), origin, expected, actual })
}

/// The Hub's answers that say something of the whole repository, as errors that say so.
pub(super) fn refused(model: &HubModel, error: Error) -> Error {
    match error {
        Error::Status { url, status: status @ (401 | 403 | 404), .. } => {
            Error::Refused { model: model.to_string(), url, status, said: String::new() }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named() {
        let parts = |text: &str| {
            let HubModel { repo, revision, path } = text.parse().unwrap();
            [repo, revision, path]
        };
        assert_eq!(parts("hub:me/net"), ["me/net", "main", ""]);
        assert_eq!(parts("hub:me/net.b_1@v1.0"), ["me/net.b_1", "v1.0", ""]);
        assert_eq!(parts("hub:me/net@refs%2Fpr%2F1/ebm-0"), ["me/net", "refs/pr/1", "ebm-0"]);
        assert_eq!(parts("hub:me/net/a/b.safetensors"), ["me/net", "main", "a/b.safetensors"]);
        let text = "hub:me/net@refs%2Fpr%2F1/ebm-0";
        assert_eq!(text.parse::<HubModel>().unwrap().to_string(), text);
    }

    #[test]
    fn what_leads_elsewhere_is_no_name() {
        for bad in [
            "me/net",
            "hub:",
            "hub:net",
            "hub:me/",
            "hub:/net",
            "hub:../net",
            "hub:me/..",
            "hub:me/.net",
            "hub:me/a--b",
            "hub:me/net@",
            "hub:me/net@..",
            "hub:me/net@..%2F..%2Fx",
            "hub:me/net@a b",
            "hub:me/net@a?b",
            "hub:me/net@main/../../x",
            "hub:me/net//etc/passwd",
            "hub:me/ne\u{301}t",
            "hub:user:secret@host/net",
        ] {
            assert!(matches!(bad.parse::<HubModel>(), Err(Error::HubName { .. })), "{bad}");
        }
    }
}
