//! Weights from the Hugging Face Hub, through the cache that other programs of the Hub share.
//!
//! hf-hub knows the cache; its client is not used, as it neither notices a stall nor compares hashes. A blob
//! gets its name in the cache, and a snapshot its link, only when the content has the hash that the Hub
//! publishes for it.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde::Deserialize;

use super::download::{self, FetchOptions, Target};
use super::error::{Error, Result};
use super::hash::{self, BUFFER, Pin, is_hex};
use super::http::Ask;
use super::part::Part;
use super::{Entry, Event, Report, State, take_lock};

/// A file of a repository of models.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubFile {
    /// `owner/name`.
    pub repo: String,
    /// A branch, a tag or a commit.
    #[serde(default = "main_branch")]
    pub revision: String,
    /// The file's path in the repository.
    pub file: String,
}

fn main_branch() -> String {
    "main".into()
}

/// Which Hub, and where its files are kept.
#[derive(Clone)]
pub struct Hub {
    /// The folder that holds `models--owner--name`.
    pub cache: PathBuf,
    /// `https://huggingface.co`, or a mirror.
    pub endpoint: String,
    /// For repositories that are not public. Sent to the endpoint only.
    pub token: Option<String>,
    /// Whether only the cache is used.
    pub offline: bool,
}

/// Without the token.
impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cache, endpoint, offline, .. } = self;
        f.debug_struct("Hub")
            .field("cache", cache)
            .field("endpoint", endpoint)
            .field("offline", offline)
            .finish()
    }
}

impl Hub {
    /// What the environment's variables say, which `variable` looks up: `HF_HUB_CACHE` or `HF_HOME` (else
    /// `.cache/huggingface` in `HOME`), `HF_ENDPOINT`, `HF_TOKEN` (else the file that a login has written),
    /// `HF_HUB_OFFLINE`. `None` without any home.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let user = || Some(PathBuf::from(given("HOME").or_else(|| given("USERPROFILE"))?));
        let home = given("HF_HOME").map(PathBuf::from).or_else(|| Some(user()?.join(".cache/huggingface")));
        let cache = given("HF_HUB_CACHE").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join("hub")))?;
        let login = || Cache::new(home.as_ref()?.join("hub")).token();
        let yes = |value: String| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str());
        Some(Self {
            cache,
            endpoint: given("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            // A variable that is set from a file ends as the file does.
            token: given("HF_TOKEN").or_else(login).map(|token| token.trim().to_owned()),
            offline: given("HF_HUB_OFFLINE").is_some_and(yes),
        })
    }
}

/// Brings a file of the Hub to `path`. The caller holds the lock of `path`.
pub(super) fn fetch(
    entry: &Entry,
    pin: &Pin,
    source: &HubFile,
    path: &Path,
    hub: &Hub,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<State> {
    let repo = Repo::with_revision(source.repo.clone(), RepoType::Model, source.revision.clone());
    let kept = Cache::new(hub.cache.clone()).repo(repo);
    let blob = match in_cache(&kept, source) {
        Some(blob) => blob,
        None if hub.offline || options.offline => return Ok(State::Missing),
        None => into_cache(entry, pin, source, hub, &kept, options, report)?,
    };
    let sha256 = copy(pin, &blob, path, report)?;
    Ok(State::Fetched { sha256, trusted: !pin.is_whole() })
}

/// The blob that the revision's snapshot links to.
fn in_cache(kept: &CacheRepo, source: &HubFile) -> Option<PathBuf> {
    let of_commit =
        || Some(kept.pointer_path(&source.revision).join(&source.file)).filter(|path| path.exists());
    let pointer = kept.get(&source.file).or_else(of_commit)?;
    fs::canonicalize(pointer).ok()
}

/// Fetches the blob and links it.
fn into_cache(
    entry: &Entry,
    pin: &Pin,
    source: &HubFile,
    hub: &Hub,
    kept: &CacheRepo,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<PathBuf> {
    let revision = source.revision.replace('/', "%2F");
    let url =
        format!("{}/{}/resolve/{revision}/{}", hub.endpoint.trim_end_matches('/'), source.repo, source.file);
    let root = hub.cache.join(Repo::new(source.repo.clone(), RepoType::Model).folder_name());
    let protocol =
        |detail: String| Error::Protocol { path: root.join(&source.file), url: url.clone(), detail };
    let bearer = hub.token.as_deref();
    let ask = Ask { path: &root, url: &url, resume: None, stall: options.stall, bearer, facts: true };
    // The body is not read: the content is asked for when its name is known.
    let known = download::describe(&ask, options, report)?.hub;
    let commit = known.commit.filter(|commit| is_hex(commit, 40));
    let commit = commit.ok_or_else(|| protocol("the Hub names no commit (X-Repo-Commit)".into()))?;
    let tag = known.tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
    let tag = tag.filter(|tag| is_hex(tag, 40) || is_hex(tag, 64));
    let tag = tag.ok_or_else(|| protocol("the Hub names no content (ETag)".into()))?;
    let blob = root.join("blobs").join(&tag);
    fs::create_dir_all(root.join("blobs")).map_err(Error::io("create", &blob))?;
    let lock = take_lock(&blob)?;
    if !blob.exists() {
        // The name of a large file's blob is its SHA-256.
        let pin = if is_hex(&tag, 64) { Pin::Sha256(tag) } else { pin.clone() };
        let urls = [url.clone()];
        let size = entry.size.or(known.size);
        let reserve = size.unwrap_or(0);
        let target = Target { path: &blob, urls: &urls, pin: &pin, size, reserve, record: false, bearer };
        let fetched = download::download(&target, options, report);
        report(Event::End);
        fetched?;
    }
    drop(lock);
    let pointer = kept.pointer_path(&commit).join(&source.file);
    link(&blob, &pointer, Path::new(&source.file))?;
    kept.create_ref(&commit).map_err(Error::io("write the revision of", &pointer))?;
    Ok(blob)
}

/// Links a snapshot's file to its blob, as other programs of the Hub do.
fn link(blob: &Path, pointer: &Path, file: &Path) -> Result<()> {
    if let Some(folder) = pointer.parent() {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    let mut relative: PathBuf = std::iter::repeat_n("..", file.components().count() + 1).collect();
    relative.push("blobs");
    relative.push(blob.file_name().unwrap_or_default());
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(relative, pointer);
    #[cfg(not(unix))]
    let linked = fs::copy(blob, pointer).map(drop);
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(Error::io("link", pointer)),
    }
}

/// Copies a blob into its place and compares what was copied with its name and with the manifest; the hash.
fn copy(pin: &Pin, blob: &Path, path: &Path, report: Report<'_>) -> Result<String> {
    let mut file = ebm_files::open_input(blob).map_err(Error::io("read", blob))?;
    let total = file.metadata().map_err(Error::io("read", blob))?.len();
    let mut part = Part::open(path)?;
    part.restart(None)?;
    report(Event::Verify { path, total });
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = file.read(&mut buffer).map_err(Error::io("read", blob))?;
        if n == 0 {
            break;
        }
        part.append(&buffer[..n], total.saturating_sub(part.len()))?;
        report(Event::Advance { done: part.len() });
    }
    let actual = part.sha256();
    let name = blob.file_name().and_then(|name| name.to_str()).filter(|name| is_hex(name, 64));
    let expected = if pin.admits(&actual) {
        name.filter(|name| *name != actual).map(str::to_owned)
    } else {
        Some(pin.expected())
    };
    if let Some(expected) = expected {
        part.discard();
        let origin = format!("{} of the Hub's cache", blob.display());
        let remedy = "remove that file from the cache and run again";
        return Err(Error::WrongHash { path: path.into(), origin, expected, actual, remedy });
    }
    if !pin.is_whole() {
        hash::record(path, &actual)?;
    }
    part.commit()?;
    report(Event::End);
    Ok(actual)
}
