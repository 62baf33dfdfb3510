//! Models and files of the Hugging Face Hub, through the cache that other programs of the Hub share.
//!
//! hf-hub knows the cache. Its client is not used: it sends the token to the host that the Hub redirects to, notices
//! no stall and compares no hash. A blob gets its name in the cache, and a snapshot its link, only when the content
//! has the hash that the Hub states for it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};

use super::download::{FetchOptions, Target, ask, persist};
use super::error::{Error, Result};
use super::hash::{Pin, hex, is_hex};
use super::{Report, take_lock};
use crate::files::stays_inside;

/// More than the list of a repository's files has, in bytes.
const LIST_LIMIT: u64 = 16 << 20;
/// The endings of a model's files; nothing else is fetched. None of them can hold code.
const ENDINGS: [&str; 4] = [".safetensors", ".toml", ".json", ".md"];

/// Which Hub, and where its files are kept.
#[derive(Clone)]
pub struct Hub {
    /// The folder that holds `models--owner--name`.
    pub cache: PathBuf,
    /// `https://huggingface.co`, or a mirror.
    pub endpoint: String,
    /// For repositories that are not public. Sent to the endpoint's host only.
    pub token: Option<String>,
    /// Whether only the cache is used.
    pub offline: bool,
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

    /// The address of `path`, of a repository's `revision` if one is given: a slash in that is no part of the path.
    fn url(&self, path: &str, revision: &str, more: &str) -> String {
        const PATH: &AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
        let [path, revision, more] =
            [path, revision, more].map(|part| utf8_percent_encode(part, PATH).to_string());
        format!("{}/{path}/{}{more}", self.endpoint.trim_end_matches('/'), revision.replace('/', "%2F"))
    }
}

/// A model of the Hub, or a file or folder in it: `hub:OWNER/NAME`, or `hub:OWNER/NAME@REVISION`, and behind that
/// `/PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubModel {
    /// `OWNER/NAME`.
    pub repo: String,
    /// A branch, a tag or a commit.
    #[serde(default = "main_branch")]
    pub revision: String,
    /// The path in the repository; empty for all of it.
    pub file: String,
}

fn main_branch() -> String {
    "main".into()
}

impl HubModel {
    /// What its name begins with.
    pub const PREFIX: &str = "hub:";

    /// The part of the cache that is the repository's.
    fn kept(&self, hub: &Hub) -> CacheRepo {
        let repo = Repo::with_revision(self.repo.clone(), RepoType::Model, self.revision.clone());
        Cache::new(hub.cache.clone()).repo(repo)
    }

    /// Its place in the cache, if it is there.
    fn cached(&self, hub: &Hub) -> Option<PathBuf> {
        let kept = self.kept(hub);
        let of_commit =
            || Some(kept.pointer_path(&self.revision).join(&self.file)).filter(|path| path.exists());
        // Joined to an empty path it would end with a slash.
        Some(kept.get(&self.file).or_else(of_commit)?.components().collect())
    }

    pub(super) fn not_there(&self, options: &FetchOptions) -> Error {
        let why = match options.asks_nobody() {
            true => "it is not in the cache below HF_HOME; unset HF_HUB_OFFLINE and run again".into(),
            false => {
                format!("the repository has no such file or folder; only {} are taken", ENDINGS.join(", "))
            }
        };
        Error::NotThere(self.to_string(), why)
    }

    /// Fetches those of its files that are `wanted` and not in the cache.
    fn fetch(&self, wanted: &dyn Fn(&str) -> bool, options: &FetchOptions, report: Report<'_>) -> Result<()> {
        let (of, hub) = (PathBuf::from(self.to_string()), options.hub()?);
        let url = hub.url(&format!("api/models/{}/revision", self.repo), &self.revision, "") + "?blobs=true";
        let mut listing = persist(options, report, &mut |_| (0, Listing::ask(&of, &url, hub, options)))?;
        listing.siblings.retain(|file| wanted(&file.rfilename));
        // What is refused is refused before anything is fetched.
        listing.check().map_err(|detail| Error::at(Error::Wrong, &of, &url, detail))?;
        let (kept, resolve) = (self.kept(hub), format!("{}/resolve", self.repo));
        let snapshot = kept.pointer_path(&listing.sha);
        for file in listing.siblings.iter().filter(|file| !snapshot.join(&file.rfilename).exists()) {
            let url = hub.url(&resolve, &listing.sha, &format!("/{}", file.rfilename));
            file.fetch(&snapshot, &url, options, report)?;
        }
        kept.create_ref(&listing.sha).map_err(Error::io("write the revision of", &snapshot))
    }

    /// Its place in the cache, into which those of its files that are `wanted` come unless it is there already, or
    /// they are asked for anew; `None` where the Hub does not have it, or is not asked.
    pub(super) fn find(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        anew: bool,
        options: &FetchOptions,
        report: Report<'_>,
    ) -> Result<Option<PathBuf>> {
        let found = self.cached(options.hub()?);
        if options.asks_nobody() || !anew && found.is_some() {
            return Ok(found);
        }
        self.fetch(wanted, options, report)?;
        Ok(self.cached(options.hub()?))
    }
}

/// The folder of the Hub's cache that holds the model, or the file or folder in it that is meant. What is not
/// there is fetched: the files of a model, which end in `.safetensors`, `.toml`, `.json` and `.md`, each of the
/// size and the hash that the Hub states.
///
/// # Errors
/// [`Error::NotThere`] where the repository, or the cache if only that is used, does not have it; [`Error::Status`]
/// for a repository that is not there or not for everybody; [`Error::Wrong`] for a list that names files elsewhere;
/// else those of [`super::get_entry`].
pub fn snapshot(model: &HubModel, options: &FetchOptions, report: Report<'_>) -> Result<PathBuf> {
    let of_a_model = |name: &str| ENDINGS.iter().any(|ending| name.ends_with(ending));
    model.find(&of_a_model, true, options, report)?.ok_or_else(|| model.not_there(options))
}

/// What the Hub tells of a revision.
#[derive(Deserialize)]
struct Listing {
    /// The commit.
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    /// What git calls a small file's content.
    blob_id: Option<String>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
    size: u64,
}

impl Listing {
    fn ask(of: &Path, url: &str, hub: &Hub, options: &FetchOptions) -> Result<Self> {
        let response = ask(of, url, hub.token.as_deref(), 0, options)?;
        let text = response.into_body().into_with_config().limit(LIST_LIMIT).read_to_vec();
        let text = text.map_err(|error| Error::at(Error::Network, of, url, error))?;
        let wrong = |error| format!("it is no list of a model's files: {error}");
        serde_json::from_slice(&text).map_err(|error| Error::at(Error::Wrong, of, url, wrong(error)))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if !is_hex(&self.sha, 40) {
            return Err("the Hub names no commit; see HF_ENDPOINT".into());
        }
        let bad = |file: &&Sibling| {
            !stays_inside(&file.rfilename) || file.rfilename.contains('\\') || file.tag().is_none()
        };
        match self.siblings.iter().find(bad) {
            Some(Sibling { rfilename: name, .. }) => Err(format!(
                "it lists {name:?}, whose name leads out of its folder or whose hash it does not tell"
            )),
            None => Ok(()),
        }
    }
}

impl Sibling {
    /// What the Hub calls its content: SHA-256 of a large file, git's name of a small one.
    fn tag(&self) -> Option<&str> {
        match &self.lfs {
            Some(large) => Some(large.sha256.as_str()).filter(|tag| is_hex(tag, 64)),
            None => self.blob_id.as_deref().filter(|tag| is_hex(tag, 40)),
        }
    }

    /// Fetches its blob, if the cache does not have it, and links it into the snapshot, as other programs of the Hub do.
    fn fetch(&self, snapshot: &Path, url: &str, options: &FetchOptions, report: Report<'_>) -> Result<()> {
        let (tag, large) = (self.tag().unwrap_or_default(), self.lfs.is_some());
        let create = |folder: &Path| fs::create_dir_all(folder).map_err(Error::io("create", folder));
        // Beside the snapshots.
        let blobs = snapshot.ancestors().nth(2).unwrap_or(snapshot).join("blobs");
        create(&blobs)?;
        let blob = blobs.join(tag);
        let _lock = take_lock(&blob)?;
        if !blob.exists() {
            let pin = Pin(if large { tag.into() } else { String::new() });
            let size = self.lfs.as_ref().map(|file| file.size).or(self.size);
            let target = Target { path: &blob, pin: &pin, size, bearer: options.hub()?.token.as_deref() };
            target.fetch(&[url.to_owned()], options, report)?;
        }
        if !large && git_id(&blob)? != tag {
            fs::remove_file(&blob).map_err(Error::io("remove", &blob))?;
            return Err(Error::at(
                Error::Wrong,
                &blob,
                url,
                "the content is not what git calls so; run again",
            ));
        }
        let pointer = snapshot.join(&self.rfilename);
        create(pointer.parent().unwrap_or(snapshot))?;
        let up = "../".repeat(Path::new(&self.rfilename).components().count() + 1);
        #[cfg(unix)]
        let linked = std::os::unix::fs::symlink(format!("{up}blobs/{tag}"), &pointer);
        #[cfg(not(unix))]
        let linked = fs::copy(&blob, &pointer).map(|_| drop(up));
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(Error::io("link", &pointer)),
        }
    }
}

/// What git, and with it the Hub, calls the content of a file that is small: SHA-1 of a head and the bytes.
fn git_id(path: &Path) -> Result<String> {
    let read = || {
        let mut file = ebm_files::open_input(path)?;
        let mut hash = Sha1::new().chain_update(format!("blob {}\0", file.metadata()?.len()));
        io::copy(&mut file, &mut hash).map(|_| hex(hash))
    };
    read().map_err(Error::io("read", path))
}

/// Whether the Hub may call a user, an organisation or a repository so.
fn is_name(name: &str) -> bool {
    let known = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    known && !name.is_empty() && !name.starts_with('.') && !name.contains("..") && !name.contains("--")
}

impl FromStr for HubModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = || {
            let (owner, rest) = text.strip_prefix(Self::PREFIX)?.split_once('/')?;
            let (repository, file) = rest.split_once('/').unwrap_or((rest, ""));
            let (name, revision) = repository.split_once('@').unwrap_or((repository, "main"));
            let revision = revision.replace("%2F", "/");
            let of_revision = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let right = is_name(owner)
                && is_name(name)
                && stays_inside(&revision)
                && revision.chars().all(of_revision)
                && (file.is_empty() || stays_inside(file));
            right.then(|| Self { repo: format!("{owner}/{name}"), revision, file: file.into() })
        };
        parts().ok_or_else(|| Error::HubName(text.into()))
    }
}

impl std::fmt::Display for HubModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}@{}", Self::PREFIX, self.repo, self.revision.replace('/', "%2F"))?;
        if self.file.is_empty() { Ok(()) } else { write!(f, "/{}", self.file) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named() {
        let parts = |text: &str| {
            let HubModel { repo, revision, file } = text.parse().unwrap();
            [repo, revision, file]
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
            assert!(matches!(bad.parse::<HubModel>(), Err(Error::HubName(_))), "{bad}");
        }
    }
}
