//! Files from the Hugging Face Hub, through the cache that other programs of the Hub share.
//!
//! hf-hub knows the cache; its client is not used, as it neither notices a stall nor compares hashes. A blob
//! gets its name in the cache, and a snapshot its link, only when the content has the hash that the Hub
//! publishes for it.

use std::borrow::Cow;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};

use super::address::shown;
use super::download::{self, FetchOptions, Target};
use super::error::{Error, Result};
use super::hash::{self, BUFFER, Pin, hex, is_hex};
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

impl Hub {
    /// Its address, as messages show it.
    pub fn address(&self) -> Cow<'_, str> {
        shown(&self.endpoint)
    }

    /// The part of the cache that is a revision's of a repository.
    pub(super) fn kept(&self, repo: &str, revision: &str) -> CacheRepo {
        let repo = Repo::with_revision(repo.into(), RepoType::Model, revision.into());
        Cache::new(self.cache.clone()).repo(repo)
    }

    /// The folder of the cache that is a repository's.
    pub(super) fn folder(&self, repo: &str) -> PathBuf {
        self.cache.join(Repo::new(repo.into(), RepoType::Model).folder_name())
    }

    /// An address of the Hub, of `path` below it; the parts of the path are [`quoted`] where they need it.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.endpoint.trim_end_matches('/'))
    }
}

/// A name as part of an address's path: with `slashes`, the slashes in it divide the path too.
pub(super) fn quoted(name: &str, slashes: bool) -> String {
    const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    const PATH: &AsciiSet = &NAME.remove(b'/');
    utf8_percent_encode(name, if slashes { PATH } else { NAME }).to_string()
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
    let kept = hub.kept(&source.repo, &source.revision);
    let blob = match in_cache(&kept, source) {
        Some(blob) => blob,
        None if hub.offline || options.offline => return Ok(State::Missing),
        None => {
            let wanted = Wanted { source, pin, size: entry.size, tag: None };
            let (blob, commit) = into_cache(&wanted, hub, options, report)?;
            kept.create_ref(&commit).map_err(Error::io("write the revision of", &blob))?;
            blob
        }
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

/// A file that is to be in the cache, and what is known of it.
pub(super) struct Wanted<'a> {
    pub source: &'a HubFile,
    pub pin: &'a Pin,
    pub size: Option<u64>,
    /// What the Hub calls its content.
    pub tag: Option<&'a str>,
}

/// Fetches the blob and links it; the blob, and the commit whose snapshot has it.
pub(super) fn into_cache(
    wanted: &Wanted<'_>,
    hub: &Hub,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<(PathBuf, String)> {
    let Wanted { source, pin, .. } = *wanted;
    let HubFile { repo, revision, file } = source;
    let url = hub.url(&format!("{repo}/resolve/{}/{}", quoted(revision, false), quoted(file, true)));
    let root = hub.folder(repo);
    let protocol = |detail: String| Error::Protocol { path: root.join(file), url: url.clone(), detail };
    let bearer = hub.token.as_deref();
    let ask = Ask { path: &root, url: &url, resume: None, stall: options.stall, bearer, facts: true };
    // The body is not read: the content is asked for when its name is known.
    let known = download::describe(&ask, options, report)?.hub;
    let commit = known.commit.filter(|commit| is_hex(commit, 40));
    let commit = commit.ok_or_else(|| protocol("the Hub names no commit (X-Repo-Commit)".into()))?;
    let tag = known.tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
    let tag = tag.filter(|tag| is_hex(tag, 40) || is_hex(tag, 64));
    let tag = tag.ok_or_else(|| protocol("the Hub names no content (ETag)".into()))?;
    if let Some(listed) = wanted.tag.filter(|listed| *listed != tag) {
        return Err(protocol(format!("the Hub lists {listed} and gives {tag}; run again")));
    }
    let blob = root.join("blobs").join(&tag);
    fs::create_dir_all(root.join("blobs")).map_err(Error::io("create", &blob))?;
    let lock = take_lock(&blob)?;
    if !blob.exists() {
        // The name of a large file's blob is its SHA-256.
        let pin = if is_hex(&tag, 64) { Pin::Sha256(tag.clone()) } else { pin.clone() };
        let urls = [url.clone()];
        let size = wanted.size.or(known.size);
        let reserve = size.unwrap_or(0);
        let target = Target { path: &blob, urls: &urls, pin: &pin, size, reserve, record: false, bearer };
        let fetched = download::download(&target, options, report);
        report(Event::End);
        fetched?;
    }
    if is_hex(&tag, 40) {
        let actual = git_id(&blob)?;
        if actual != tag {
            fs::remove_file(&blob).map_err(Error::io("remove", &blob))?;
            return Err(protocol(format!("the content is git's {actual}, not {tag}; it is removed")));
        }
    }
    drop(lock);
    let pointer = hub.kept(repo, revision).pointer_path(&commit).join(file);
    link(&blob, &pointer, Path::new(file))?;
    Ok((blob, commit))
}

/// What git, and with it the Hub, calls the content of a file that is small: SHA-1 of a head and the bytes.
///
/// # Errors
/// [`Error::Io`] when it cannot be read.
pub(super) fn git_id(path: &Path) -> Result<String> {
    let mut file = ebm_files::open_input(path).map_err(Error::io("read", path))?;
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    let mut hash = Sha1::new().chain_update(format!("blob {length}\0"));
    hash::update(&mut hash, &mut file, &mut |_| ()).map_err(Error::io("read", path))?;
    Ok(hex(hash))
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
