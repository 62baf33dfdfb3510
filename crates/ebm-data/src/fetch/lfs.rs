//! Large files to the Hugging Face Hub: Git LFS, whose batch says of each blob where it goes, if anywhere.
//!
//! What is sent here goes to addresses that the Hub names, often of another host: with the headers that it
//! names, and never with the token, unless the address is the Hub's own.

use std::collections::BTreeMap;
use std::io::{Read, Seek as _, SeekFrom};

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{HeaderName, HeaderValue, Uri, header};

use super::address::{self, plain};
use super::download::persist;
use super::error::{Error, Result};
use super::http::{self, Answer, Parcel};
use super::push::{Outgoing, Session};
use super::{Event, Report};

/// What Git LFS speaks.
const LFS: &str = "application/vnd.git-lfs+json";

/// The most parts of a blob.
const MAX_PARTS: u64 = 10_000;

#[derive(Deserialize)]
struct Batch {
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    /// None where the Hub has the blob.
    actions: Option<Actions>,
    error: Option<ObjectError>,
}

#[derive(Deserialize)]
struct Actions {
    upload: Option<Action>,
    verify: Option<Action>,
}

#[derive(Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct ObjectError {
    message: String,
}

/// Brings the content of `files` to the Hub, as far as it is not there.
pub(super) fn upload(session: &Session<'_>, files: &[&Outgoing], report: Report<'_>) -> Result<()> {
    let mut wanted: Vec<&Outgoing> = files.to_vec();
    // One content under two names is one blob.
    wanted.sort_by(|a, b| a.sha256.cmp(&b.sha256));
    wanted.dedup_by(|a, b| a.sha256 == b.sha256);
    if wanted.is_empty() {
        return Ok(());
    }
    let objects: Vec<Value> =
        wanted.iter().map(|file| json!({ "oid": file.sha256, "size": file.size })).collect();
    let body = json!({
        "operation": "upload", "transfers": ["basic", "multipart"], "hash_algo": "sha256", "objects": objects,
        "ref": { "name": session.model.revision() },
    });
    let url = session.hub.url(&format!("{}.git/info/lfs/objects/batch", session.model.repo()));
    let answer = session.ask(&url, LFS, &body.to_string(), &[], report)?;
    let Batch { objects } = session.parse(&url, answer)?;
    for file in wanted {
        let wrong = |what: &str| session.protocol(url.clone(), format!("{}: {what}", file.name));
        let object = objects.iter().find(|object| object.oid == file.sha256);
        let object = object.ok_or_else(|| wrong("it says nothing of this file"))?;
        if let Some(ObjectError { message }) = &object.error {
            return Err(wrong(&format!("it refuses this file: {}", session.shown(message))));
        }
        let Some(Actions { upload, verify }) = &object.actions else { continue };
        if let Some(action) = upload {
            let blob = Blob { session, file, action };
            let sent = blob.send(report);
            report(Event::End);
            sent?;
        }
        if let Some(action) = verify {
            let body = json!({ "oid": file.sha256, "size": file.size });
            Blob { session, file, action }.tell(&body, report)?;
        }
    }
    Ok(())
}

/// A file and what is to be done with it.
struct Blob<'a> {
    session: &'a Session<'a>,
    file: &'a Outgoing,
    action: &'a Action,
}

/// A part of a file.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    length: u64,
}

impl Blob<'_> {
    fn wrong(&self, detail: &str) -> Error {
        self.session.protocol(self.action.href.clone(), format!("{}: {detail}", self.file.name))
    }

    /// Whether an address may be sent to: where the Hub itself is asked by https, so it stays.
    fn check(&self, url: &str) -> Result<Uri> {
        let from = address::allowed(&self.session.hub.endpoint);
        let to = address::allowed(url);
        let to = to.filter(|to| from.as_ref().is_some_and(|from| address::may_redirect(from, to)));
        to.ok_or_else(|| Error::Insecure {
            path: self.file.path.clone(),
            url: plain(url).into(),
            from: Some(self.session.hub.endpoint.clone()),
        })
    }

    /// Sends the content, whole or in the parts that the Hub wants.
    fn send(&self, report: Report<'_>) -> Result<()> {
        let Some(chunk) = self.action.header.get("chunk_size") else {
            let whole = Span { start: 0, length: self.file.size };
            return self.put(&self.action.href, &self.headers()?, whole, report).map(drop);
        };
        let chunk = chunk.as_u64().or_else(|| chunk.as_str()?.parse().ok()).filter(|&chunk| chunk > 0);
        let chunk = chunk.ok_or_else(|| self.wrong("its chunk_size is no number of bytes"))?;
        let mut urls = BTreeMap::new();
        for (number, url) in &self.action.header {
            let (Ok(number), Some(url)) = (number.parse::<u64>(), url.as_str()) else { continue };
            urls.insert(number, url);
        }
        let count = self.file.size.div_ceil(chunk);
        let numbered = urls.keys().copied().eq(1..=count.min(MAX_PARTS + 1));
        if count > MAX_PARTS || !numbered {
            let detail = format!("{} addresses are no {count} parts of {chunk} bytes", urls.len());
            return Err(self.wrong(&detail));
        }
        let mut parts = Vec::new();
        for (number, url) in urls {
            let start = (number - 1) * chunk;
            let span = Span { start, length: chunk.min(self.file.size - start) };
            let tag = self.put(url, &[], span, report)?.etag;
            let tag = tag.ok_or_else(|| self.wrong(&format!("part {number} got no ETag")))?;
            parts.push(json!({ "partNumber": number, "etag": tag }));
        }
        self.tell_with(&[], &json!({ "oid": self.file.sha256, "parts": parts }), report)
    }

    /// The headers that the Hub wants with what is sent; not those by which requests are told apart.
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>> {
        let mut headers = Vec::new();
        for (name, value) in &self.action.header {
            let name = HeaderName::from_bytes(name.as_bytes()).ok();
            let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
            let (Some(name), Some(value)) = (name, value) else {
                return Err(self.wrong("it wants a header that is none"));
            };
            if ![header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION]
                .contains(&name)
            {
                headers.push((name, value));
            }
        }
        Ok(headers)
    }

    /// Puts a part of the file where `url` says.
    fn put(
        &self,
        url: &str,
        headers: &[(HeaderName, HeaderValue)],
        Span { start, length }: Span,
        report: Report<'_>,
    ) -> Result<Answer> {
        self.check(url)?;
        let (path, options) = (&self.file.path, self.session.options);
        let (total, stall) = (self.file.size, options.stall);
        let parcel = Parcel { path, url, put: true, headers, length, stall, bearer: None };
        let answer = persist(path, plain(url), options, report, &mut |report| {
            let mut file = ebm_files::open_input(path).map_err(Error::io("read", path))?;
            file.seek(SeekFrom::Start(start)).map_err(Error::io("read", path))?;
            report(Event::Send { path, done: start, total });
            let mut reader = Told { reader: file.take(length), done: start, report };
            http::send(&parcel, &mut reader)
        })?;
        self.session.accepted(url, answer)
    }

    /// Tells the action's address `body`.
    fn tell(&self, body: &Value, report: Report<'_>) -> Result<()> {
        self.tell_with(&self.headers()?, body, report)
    }

    fn tell_with(
        &self,
        headers: &[(HeaderName, HeaderValue)],
        body: &Value,
        report: Report<'_>,
    ) -> Result<()> {
        let url = &self.action.href;
        let to = self.check(url)?;
        let own = address::allowed(&self.session.hub.endpoint)
            .is_some_and(|own| own.scheme() == to.scheme() && own.authority() == to.authority());
        let named = headers.iter().any(|(name, _)| name == header::AUTHORIZATION);
        let bearer = self.session.hub.token.as_deref().filter(|_| own && !named);
        let mut headers = headers.to_vec();
        for name in [header::ACCEPT, header::CONTENT_TYPE] {
            if !headers.iter().any(|(known, _)| *known == name) {
                headers.push((name, HeaderValue::from_static(LFS)));
            }
        }
        self.session.send_text(url, &headers, &body.to_string(), bearer, &[], report).map(drop)
    }
}

/// What tells how much of it was read.
struct Told<'a, R> {
    reader: R,
    done: u64,
    report: Report<'a>,
}

impl<R: Read> Read for Told<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.reader.read(buffer)?;
        self.done += n as u64;
        (self.report)(Event::Advance { done: self.done });
        Ok(n)
    }
}
