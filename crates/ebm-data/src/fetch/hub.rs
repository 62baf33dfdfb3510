//! Models of the Hugging Face Hub, through the cache that other programs of the Hub share.
//!
//! hf-hub manages the cache. Its client is not used, because it sends the token to the host that the Hub
//! redirects to, detects no stall and compares no hash. Here a blob gets its name in the cache, and a snapshot
//! its link, only if the content has the hash that the Hub states for it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sha1::{Digest as _, Sha1};

use super::download::{FetchOptions, Target, retry};
use super::{Report, hex, io_error, is_hex, take_lock};
use crate::error::{Error, Result};
use crate::files::stays_inside;

/// Largest size of the list of a repository's files, in bytes.
const LIST_LIMIT: u64 = 16 << 20;
/// Extensions of a model's files; nothing else is fetched. No file with one of them can hold code.
const ENDINGS: [&str; 4] = [".safetensors", ".toml", ".json", ".md"];

/// Address of a Hub, and the folder of its cache.
#[derive(Clone)]
pub struct Hub {
    /// Folder that holds `models--owner--name`.
    pub cache: PathBuf,
    /// Address of the Hub: `https://huggingface.co`, or a mirror.
    pub endpoint: String,
    /// Token for repositories that are not public. It is sent only to the endpoint's host.
    pub token: Option<String>,
    /// `true` to use only the cache.
    pub offline: bool,
}

impl Hub {
    /// Reads the settings from environment variables, which `variable` looks up: `HF_HUB_CACHE` or `HF_HOME`
    /// (else `.cache/huggingface` in `HOME`), `HF_ENDPOINT`, `HF_TOKEN` (else the file that a login has written),
    /// `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    /// [`Error::Failure`] if no variable names a home.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let user = given("HOME").or_else(|| given("USERPROFILE"));
        let user = user.map(|user| Path::new(&user).join(".cache/huggingface"));
        let home = given("HF_HOME").map(PathBuf::from).or(user);
        let hub = home.map(|home| home.join("hub"));
        let login = || Cache::new(hub.clone()?).token();
        let token = given("HF_TOKEN").or_else(login);
        let homeless = || Error::Failure("the Hub's cache".into(), "it has no place: set HF_HOME".into());
        let yes = |value: String| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str());
        Ok(Self {
            // A variable that was set from a file may end with a newline.
            token: token.map(|token| token.trim().to_owned()),
            cache: given("HF_HUB_CACHE").map(PathBuf::from).or(hub).ok_or_else(homeless)?,
            endpoint: given("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            offline: given("HF_HUB_OFFLINE").is_some_and(yes),
        })
    }

    /// Returns the address of `path` at a `revision` of a repository. A slash in `revision` is escaped.
    fn url(&self, path: &str, revision: &str, more: &str) -> String {
        const PATH: &AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
        let [path, revision, more] =
            [path, revision, more].map(|part| utf8_percent_encode(part, PATH).to_string());
        format!("{}/{path}/{}{more}", self.endpoint.trim_end_matches('/'), revision.replace('/', "%2F"))
    }
}

/// Model of the Hub, or a file or folder in it: `hub:OWNER/NAME`, or `hub:OWNER/NAME@REVISION`, each optionally
/// followed by `/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubModel {
    /// Name of the repository, `OWNER/NAME`.
    pub repo: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// Path in the repository; empty for the whole repository.
    pub file: String,
}

impl HubModel {
    /// Prefix of the name of a model of the Hub.
    pub const PREFIX: &str = "hub:";

    /// Fetches the model's files that are not in `kept`, its part of the cache.
    fn fetch(&self, kept: &CacheRepo, hub: &Hub, options: &FetchOptions, report: Report<'_>) -> Result<()> {
        let url = hub.url(&format!("api/models/{}/revision", self.repo), &self.revision, "") + "?blobs=true";
        let (path, bearer) = (PathBuf::from(self.to_string()), hub.token.as_deref());
        let list = Target { path: &path, url: &url, sha256: "", size: None, bearer };
        let (commit, mut files) = retry(options, report, &mut |_| (0, listing(&list, options)))?;
        files.retain(|file| ENDINGS.iter().any(|ending| file.name.ends_with(ending)));
        // All names are checked before anything is fetched.
        if let Some(bad) = files.iter().find(|file| !file.is_named()) {
            let name = &bad.name;
            let detail = format!(
                "it lists {name:?}, whose name leads out of its folder or whose hash it does not tell"
            );
            return Err(list.error(Error::Data, detail));
        }
        let (resolve, snapshot) = (format!("{}/resolve", self.repo), kept.pointer_path(&commit));
        for file in files.iter().filter(|file| !snapshot.join(&file.name).exists()) {
            let url = hub.url(&resolve, &commit, &format!("/{}", file.name));
            file.fetch(&snapshot, &Target { url: &url, ..list }, options, report)?;
        }
        kept.create_ref(&commit).map_err(io_error("write the revision of", &snapshot))
    }
}

/// Returns the folder of the Hub's cache that holds the model, or the requested file or folder in it. Missing
/// files are fetched: all files that end in `.safetensors`, `.toml`, `.json` and `.md`. Each must have the size
/// and the hash that the Hub states.
/// # Errors
/// [`Error::Failure`] if the repository, or the cache with `offline`, does not have it, or access is refused;
/// [`Error::Data`] for a list with a file outside the folder; otherwise the errors of [`super::get_entry`].
pub fn snapshot(model: &HubModel, hub: &Hub, options: &FetchOptions, report: Report<'_>) -> Result<PathBuf> {
    let HubModel { repo, revision, file } = model;
    let repo = Repo::with_revision(repo.clone(), RepoType::Model, revision.clone());
    let kept = Cache::new(hub.cache.clone()).repo(repo);
    if !hub.offline {
        model.fetch(&kept, hub, options, report)?;
    }
    let of_commit = || Some(kept.pointer_path(revision).join(file)).filter(|path| path.exists());
    // Joining an empty path would add a slash at the end.
    let found = kept.get(file).or_else(of_commit).map(|path| path.components().collect());
    found.ok_or_else(|| {
        let absent = "it is not in the cache below HF_HOME; unset HF_HUB_OFFLINE and run again".to_owned();
        let taken =
            || format!("the repository has no such file or folder; only {} are taken", ENDINGS.join(", "));
        Error::Failure(model.to_string().into(), if hub.offline { absent } else { taken() })
    })
}

/// File of a model, as the Hub lists it.
struct HubFile {
    name: String,
    /// Hash of the content in the Hub's list: SHA-256 of a large file, git's id of a small one.
    tag: String,
    large: bool,
    size: Option<u64>,
}

/// Fetches the Hub's list of a revision and returns the commit and the files.
fn listing(list: &Target<'_>, options: &FetchOptions) -> Result<(String, Vec<HubFile>)> {
    let text = list.ask(0, options)?.into_body().into_with_config().limit(LIST_LIMIT).read_to_vec();
    let text = text.map_err(|error| list.broken(error))?;
    let found: Value = serde_json::from_slice(&text).unwrap_or_default();
    let file = |file: &Value| {
        let (name, large) = (file["rfilename"].as_str()?.to_owned(), &file["lfs"]);
        let tag = large.get("sha256").unwrap_or(&file["blobId"]).as_str().unwrap_or_default().to_owned();
        let size = large.get("size").unwrap_or(&file["size"]).as_u64();
        Some(HubFile { name, tag, large: large.is_object(), size })
    };
    let files = found["siblings"].as_array().map(|all| all.iter().filter_map(file).collect());
    let commit = found["sha"].as_str().filter(|sha| is_hex(sha, 40)).map(str::to_owned);
    commit.zip(files).ok_or_else(|| {
        list.error(Error::Data, "it is no list of a model's files at a commit; see HF_ENDPOINT")
    })
}

impl HubFile {
    /// Returns whether the name stays in the repository's folder and the hash is valid.
    fn is_named(&self) -> bool {
        let inside = stays_inside(&self.name) && !self.name.contains('\\');
        inside && is_hex(&self.tag, if self.large { 64 } else { 40 })
    }

    /// Fetches the blob from the address of `from`, unless the cache has it, and links it into the snapshot, like
    /// other programs of the Hub do.
    fn fetch(
        &self,
        snapshot: &Path,
        from: &Target<'_>,
        options: &FetchOptions,
        report: Report<'_>,
    ) -> Result<()> {
        let Self { name, tag, large, size } = self;
        let create = |folder: &Path| fs::create_dir_all(folder).map_err(io_error("create", folder));
        // The blobs are beside the snapshots.
        let blobs = snapshot.ancestors().nth(2).unwrap_or(snapshot).join("blobs");
        create(&blobs)?;
        let blob = blobs.join(tag);
        let _lock = take_lock(&blob)?;
        let sha256 = if *large { tag.as_str() } else { "" };
        let target = Target { path: &blob, sha256, size: *size, ..*from };
        if !blob.exists() {
            target.fetch(options, report)?;
        }
        if !large && git_id(&blob)? != *tag {
            fs::remove_file(&blob).map_err(io_error("remove", &blob))?;
            return Err(target.error(Error::Data, "the content does not have git's id of it; run again"));
        }
        let pointer = snapshot.join(name);
        create(pointer.parent().unwrap_or(snapshot))?;
        #[cfg(unix)]
        let linked = {
            let up = "../".repeat(Path::new(name).components().count() + 1);
            std::os::unix::fs::symlink(format!("{up}blobs/{tag}"), &pointer)
        };
        #[cfg(not(unix))]
        let linked = fs::copy(&blob, &pointer).map(drop);
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(io_error("link", &pointer)),
        }
    }
}

/// Returns git's id of the content of a file, which the Hub states for small files: SHA-1 of a head and the bytes.
fn git_id(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(io_error("read", path))?;
    let hash = Sha1::new().chain_update(format!("blob {}\0", bytes.len())).chain_update(bytes);
    Ok(hex(hash.finalize()))
}

/// Returns whether a user, an organisation or a repository of the Hub may have this name.
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
        let detail = || {
            format!(
                "{text:?} is no valid name; write hub:OWNER/NAME or hub:OWNER/NAME@REVISION, then /PATH for a file or folder in it"
            )
        };
        parts().ok_or_else(|| Error::Argument { name: "a model of the Hub", detail: detail() })
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
            assert!(matches!(bad.parse::<HubModel>(), Err(Error::Argument { .. })), "{bad}");
        }
    }
}
