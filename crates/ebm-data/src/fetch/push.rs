//! A model to the Hugging Face Hub, as one commit.
//!
//! The Hub says of each file whether it goes into the commit itself or, as every `.safetensors`, beside it
//! ([`lfs`]). What the Hub has is not sent again, so that a push that was interrupted goes on where it stopped;
//! the commit comes last, so that until then nobody sees a part of a model.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{HeaderName, HeaderValue, header};

use super::address::plain;
use super::download::{FetchOptions, persist};
use super::error::{Error, Result};
use super::hash::sha256_of;
use super::http::{self, Answer, Parcel};
use super::hub::{Hub, git_id, quoted};
use super::snapshot::{HubModel, MAX_FILES, is_of_a_model};
use super::{Report, lfs};
use crate::files::{read_limited, stays_inside};

/// More than any answer of the Hub has, in bytes.
const ANSWER_LIMIT: u64 = 4 << 20;

/// The most bytes of a file that goes into a commit itself; the Hub takes no more.
const INLINE_LIMIT: u64 = 10 << 20;

/// Bytes of a file by which the Hub tells what it is.
const SAMPLE: usize = 512;

/// A file that is to go to the Hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its path in the repository.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    /// In hexadecimal.
    pub sha256: String,
}

impl Outgoing {
    /// The file at `path`, which is to be called `name` in the repository.
    ///
    /// # Errors
    /// [`Error::NotSent`] for a name that no [`snapshot`](super::snapshot) would take; [`Error::Io`].
    pub fn read(name: &str, path: &Path) -> Result<Self> {
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !is_of_a_model(name) || !stays_inside(name) || !name.chars().all(of_name) {
            return Err(Error::NotSent { path: path.into(), name: name.into() });
        }
        let mut size = 0;
        let sha256 = sha256_of(path, &mut |bytes| size += bytes as u64)?;
        Ok(Self { name: name.into(), path: path.into(), size, sha256 })
    }
}

/// What is to be pushed.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// Where to: a repository and a branch, which are made if they are not there.
    pub model: &'a HubModel,
    /// The files. Others of the repository stay as they are.
    pub files: &'a [Outgoing],
    /// Whether a repository that is made now is for its owner alone.
    pub private: bool,
    /// The commit's title.
    pub summary: &'a str,
}

/// Sends the files and commits them; the commit's page, or none where nothing has changed.
///
/// # Errors
/// [`Error::NoToken`]; [`Error::Refused`] with the Hub's words; [`Error::Protocol`] for an answer that is none; those of
/// a connection.
pub fn push(
    push: &Push<'_>,
    hub: &Hub,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<Option<String>> {
    let Push { model, files, private, summary } = *push;
    if hub.token.as_ref().is_none_or(String::is_empty) {
        return Err(Error::NoToken { model: model.to_string() });
    }
    if hub.offline || options.offline {
        return Err(Error::NotCached { model: model.to_string(), sought: hub.endpoint.clone().into() });
    }
    let session = Session { model, hub, options };
    if files.is_empty() || files.len() > MAX_FILES {
        return Err(session.protocol(hub.url(""), format!("{} files are no model", files.len())));
    }
    session.create(private, report)?;
    let mut inline = Vec::new();
    let mut large = Vec::new();
    for (file, mode) in session.modes(files, report)? {
        match mode {
            Mode::Unchanged => {}
            Mode::Inline => inline.push(file),
            Mode::Large => large.push(file),
        }
    }
    if inline.is_empty() && large.is_empty() {
        return Ok(None);
    }
    lfs::upload(&session, &large, report)?;
    session.commit(summary, &inline, &large, report).map(Some)
}

/// How a file goes to the Hub.
enum Mode {
    Unchanged,
    Inline,
    Large,
}

/// A conversation about one revision.
pub(super) struct Session<'a> {
    pub model: &'a HubModel,
    pub hub: &'a Hub,
    pub options: &'a FetchOptions,
}

#[derive(Deserialize)]
struct Modes {
    files: Vec<ModeOf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModeOf {
    path: String,
    upload_mode: String,
    #[serde(default)]
    should_ignore: bool,
    /// What the Hub calls the content that it has there.
    oid: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Committed {
    commit_url: String,
}

const JSON: &str = "application/json";
/// A JSON document a line.
const LINES: &str = "application/x-ndjson";

impl Session<'_> {
    /// Makes the repository and the branch, unless they are there.
    fn create(&self, private: bool, report: Report<'_>) -> Result<()> {
        let (owner, name) = self.model.repo().split_once('/').unwrap_or_default();
        let mut body = json!({ "name": name, "organization": owner, "type": "model" });
        // Without a word an organisation's own rule holds.
        if private {
            body["private"] = json!(true);
        }
        // 409: it is there. A token for some repositories may make none; whether it may write, the next answer tells.
        self.ask(&self.hub.url("api/repos/create"), JSON, &body.to_string(), &[403, 409], report)?;
        let revision = self.model.revision();
        if revision != "main" && !revision.starts_with("refs/") {
            let url = format!("{}/branch/{}", self.api(), quoted(revision, false));
            self.ask(&url, JSON, "{}", &[409], report)?;
        }
        Ok(())
    }

    fn api(&self) -> String {
        self.hub.url(&format!("api/models/{}", self.model.repo()))
    }

    /// How each file goes.
    fn modes<'f>(&self, files: &'f [Outgoing], report: Report<'_>) -> Result<Vec<(&'f Outgoing, Mode)>> {
        let mut asked = Vec::new();
        for file in files {
            let head = sample(&file.path)?;
            asked.push(json!({ "path": file.name, "size": file.size, "sample": STANDARD.encode(head) }));
        }
        let url = format!("{}/preupload/{}", self.api(), quoted(self.model.revision(), false));
        let answer = self.ask(&url, JSON, &json!({ "files": asked }).to_string(), &[], report)?;
        let Modes { files: modes } = self.parse(&url, answer)?;
        let mode = |file: &'f Outgoing| {
            let wrong = |what: &str| self.protocol(url.clone(), format!("{what} {}", file.name));
            let found = modes.iter().find(|mode| mode.path == file.name);
            let found = found.ok_or_else(|| wrong("it says nothing of"))?;
            if found.should_ignore {
                return Err(wrong("the repository's .gitignore leaves out"));
            }
            let has = |ours: &str| found.oid.as_deref() == Some(ours);
            let mode = match found.upload_mode.as_str() {
                "lfs" if has(&file.sha256) => Mode::Unchanged,
                "lfs" => Mode::Large,
                "regular" if file.size > INLINE_LIMIT => return Err(wrong("it wants in the commit itself")),
                "regular" if has(&git_id(&file.path)?) => Mode::Unchanged,
                "regular" => Mode::Inline,
                _ => return Err(wrong("it says no way for")),
            };
            Ok((file, mode))
        };
        files.iter().map(mode).collect()
    }

    /// Commits; the commit's page.
    fn commit(
        &self,
        summary: &str,
        inline: &[&Outgoing],
        large: &[&Outgoing],
        report: Report<'_>,
    ) -> Result<String> {
        let mut lines = vec![json!({ "key": "header", "value": { "summary": summary, "description": "" } })];
        for file in inline {
            let bytes = read_limited(&file.path, INLINE_LIMIT)
                .map_err(|error| Error::io("read", &file.path)(std::io::Error::other(error.to_string())))?;
            let content = STANDARD.encode(bytes);
            lines.push(json!({
                "key": "file", "value": { "path": file.name, "encoding": "base64", "content": content },
            }));
        }
        for Outgoing { name, size, sha256, .. } in large {
            lines.push(json!({
                "key": "lfsFile", "value": { "path": name, "algo": "sha256", "oid": sha256, "size": size },
            }));
        }
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = format!("{}/commit/{}", self.api(), quoted(self.model.revision(), false));
        let answer = self.ask(&url, LINES, &body, &[], report)?;
        let Committed { commit_url } = self.parse(&url, answer)?;
        Ok(self.shown(&commit_url))
    }

    /// Asks the Hub itself, which learns the token; an answer of success, or of a status that is `expected`.
    pub fn ask(
        &self,
        url: &str,
        kind: &'static str,
        body: &str,
        expected: &[u16],
        report: Report<'_>,
    ) -> Result<Answer> {
        let headers = [header::ACCEPT, header::CONTENT_TYPE].map(|name| {
            let accepted = if kind == LINES && name == header::ACCEPT { JSON } else { kind };
            (name, HeaderValue::from_static(accepted))
        });
        self.send_text(url, &headers, body, self.hub.token.as_deref(), expected, report)
    }

    /// Sends a text, with a token to whom it is for.
    pub fn send_text(
        &self,
        url: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: &str,
        bearer: Option<&str>,
        expected: &[u16],
        report: Report<'_>,
    ) -> Result<Answer> {
        let shown = PathBuf::from(self.model.to_string());
        let length = body.len() as u64;
        let stall = self.options.stall;
        let parcel = Parcel { path: &shown, url, put: false, headers, length, stall, bearer };
        let answer = persist(&shown, plain(url), self.options, report, &mut |_| {
            http::send(&parcel, &mut body.as_bytes())
        })?;
        if expected.contains(&answer.status) { Ok(answer) } else { self.accepted(url, answer) }
    }

    /// The answer, if it is one of success.
    pub fn accepted(&self, url: &str, answer: Answer) -> Result<Answer> {
        let status = answer.status;
        if status < 300 {
            return Ok(answer);
        }
        Err(Error::Refused {
            model: self.model.to_string(),
            url: plain(url).into(),
            status,
            said: self.said(answer),
        })
    }

    /// What an answer says of its refusal, as far as it is a text for people.
    fn said(&self, answer: Answer) -> String {
        // An answer that breaks off says nothing more.
        let text = answer.bytes(ANSWER_LIMIT).unwrap_or_default();
        let found: Option<Value> = serde_json::from_slice(&text).ok();
        self.shown(found.as_ref().and_then(|value| value.get("error")?.as_str()).unwrap_or_default())
    }

    /// The Hub's words as messages show them.
    pub fn shown(&self, words: &str) -> String {
        const MOST: usize = 200;
        let words = http::discreet(words, self.hub.token.as_deref());
        words.chars().filter(|c| !c.is_control()).take(MOST).collect()
    }

    /// The JSON of an answer.
    pub fn parse<T: serde::de::DeserializeOwned>(&self, url: &str, answer: Answer) -> Result<T> {
        let text = answer.bytes(ANSWER_LIMIT);
        let parsed = text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        parsed.map_err(|detail| self.protocol(url.into(), format!("the answer cannot be read: {detail}")))
    }

    /// That an answer is none.
    pub fn protocol(&self, url: String, detail: String) -> Error {
        Error::Protocol { path: self.model.to_string().into(), url: plain(&url).into(), detail }
    }
}

/// How a file begins.
fn sample(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let file = ebm_files::open_input(path).map_err(Error::io("read", path))?;
    let mut head = Vec::new();
    file.take(SAMPLE as u64).read_to_end(&mut head).map_err(Error::io("read", path))?;
    Ok(head)
}
