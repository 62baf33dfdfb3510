//! From an address to a file in its place: attempts, resumption, hash, rename.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_files::check_output;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Response, Uri, header};
use ureq::{Agent, Body};

use super::error::{Error, Result};
use super::hash::{self, Pin, beside};
use super::hub::Hub;
use super::{Event, Report};

/// Bytes read at once.
const BUFFER: usize = 1 << 16;
/// Bytes that must be new for a failed attempt not to count.
const PROGRESS: u64 = 1 << 20;
/// A server that asks to wait longer, in seconds, gets an error instead.
const LONGEST_WAIT: u64 = 120;

/// How long is waited, and how often is tried.
#[derive(Clone)]
pub struct FetchOptions {
    /// Whether nothing is fetched: what is there is verified, what is missing is listed.
    pub offline: bool,
    /// Attempts in a row without a new mebibyte, after which an address is given up; by default 5.
    pub attempts: u32,
    /// A connection over which nothing comes for this long is cut; by default a minute.
    pub stall: Duration,
    /// The first wait between two attempts, by default a second; each is twice the one before.
    pub backoff: Duration,
    /// For files of the Hugging Face Hub; by default none.
    pub hub: Option<Hub>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        let [backoff, stall] = [1, 60].map(Duration::from_secs);
        Self { offline: false, attempts: 5, stall, backoff, hub: None }
    }
}

impl FetchOptions {
    /// The Hub.
    pub(super) fn hub(&self) -> Result<&Hub> {
        let homeless = || Error::NotThere("the Hub's cache".into(), "it has no place: set HF_HOME".into());
        self.hub.as_ref().ok_or_else(homeless)
    }

    /// Whether the Hub is not asked.
    pub(super) fn asks_nobody(&self) -> bool {
        self.offline || self.hub.as_ref().is_some_and(|hub| hub.offline)
    }
}

/// The address if it may be talked to, and whether it is this machine: https, or http on this machine.
pub(super) fn allowed(url: &str) -> Option<(Uri, bool)> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host().filter(|host| !host.is_empty())?.trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let scheme = uri.scheme_str()?;
    (scheme == "https" || scheme == "http" && local).then_some((uri, local))
}

/// An address as messages show it: without a user's name and password.
pub(super) fn shown(address: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = address.split_once("://") else { return address.into() };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]).into(),
        None => address.into(),
    }
}

/// The answer of `url` with the file `path`, from the byte `start` on. Redirects stay https; the token, `bearer`, goes
/// to the host of `url` alone.
pub(super) fn ask(
    path: &Path,
    url: &str,
    bearer: Option<&str>,
    start: u64,
    options: &FetchOptions,
) -> Result<Response<Body>> {
    let wrong = |detail: &str| Error::at(Error::Wrong, path, url, detail);
    let (uri, local) = allowed(url).ok_or_else(|| wrong("only https, or http on this machine"))?;
    let stall = Some(options.stall);
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .https_only(!local)
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .accept_encoding("identity")
        .user_agent(concat!("ebm/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(stall)
        .timeout_connect(stall)
        .timeout_send_request(stall)
        .timeout_recv_response(stall)
        .timeout_per_read(stall);
    // A proxy of the environment is for the outside world.
    let config = if local { config.proxy(None) } else { config };
    let mut request = config.build().new_agent().get(&uri);
    if let Some(token) = bearer {
        let detail = "the token in HF_TOKEN, or of a login, holds a character that none has; set it again";
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| wrong(detail))?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    if start > 0 {
        request = request.header(header::RANGE, format!("bytes={start}-"));
    }
    let response = request.call().map_err(|error| {
        let is_final = matches!(error, ureq::Error::RequireHttpsOnly(_) | ureq::Error::TooManyRedirects);
        Error::at(if is_final { Error::Wrong } else { Error::Network }, path, url, error)
    })?;
    match response.status().as_u16() {
        200 | 206 => Ok(response),
        416 if start > 0 => Ok(response),
        status => {
            let wait = text(response.headers(), header::RETRY_AFTER).and_then(|text| text.parse().ok());
            Err(Error::Status { path: path.into(), url: shown(url).into(), status, wait })
        }
    }
}

/// Tries `once` until it succeeds, or further attempts are of no use; it tells how many bytes are here then.
pub(super) fn persist<T>(
    options: &FetchOptions,
    report: Report<'_>,
    once: &mut dyn FnMut(Report<'_>) -> (u64, Result<T>),
) -> Result<T> {
    let (mut failures, mut furthest) = (0, 0);
    loop {
        let (done, outcome) = once(report);
        let asked = match &outcome {
            Err(Error::Network(..)) => None,
            Err(Error::Status { status: 408 | 425 | 429 | 500 | 502..=504, wait, .. })
                if wait.is_none_or(|seconds| seconds <= LONGEST_WAIT) =>
            {
                wait.map(Duration::from_secs)
            }
            _ => return outcome,
        };
        failures = if done >= furthest + PROGRESS { 1 } else { failures + 1 };
        furthest = furthest.max(done);
        if failures >= options.attempts {
            return outcome;
        }
        let wait = asked.unwrap_or(options.backoff.saturating_mul(1 << (failures - 1).min(7)));
        if let Err(error) = &outcome {
            report(Event::Retry(error, wait));
        }
        std::thread::sleep(wait);
    }
}

/// What is to come.
pub(super) struct Target<'a> {
    pub path: &'a Path,
    pub pin: &'a Pin,
    /// In bytes, if known.
    pub size: Option<u64>,
    /// A token for the hosts of the addresses.
    pub bearer: Option<&'a str>,
}

impl Target<'_> {
    /// Fetches the file from the first address that has it; its hash. The caller holds the lock.
    pub fn fetch(&self, urls: &[String], options: &FetchOptions, report: Report<'_>) -> Result<String> {
        let mut urls = urls.iter().peekable();
        while let Some(url) = urls.next() {
            let mut part = Part::open(self.path)?;
            let outcome = persist(options, report, &mut |report| {
                let outcome = self.attempt(&mut part, url, options, report);
                report(Event::End);
                (part.len, outcome)
            });
            match outcome {
                Ok(sha256) => return part.commit(self.path).map(|()| sha256),
                Err(error) => {
                    // What no later process can go on from. The error that led here is the one worth telling.
                    if part.len == 0 || self.pin.0.is_empty() {
                        let _ = fs::remove_file(&part.path);
                    }
                    if urls.peek().is_none() || matches!(error, Error::Io { .. }) {
                        return Err(error);
                    }
                    report(Event::Retry(&error, Duration::ZERO));
                }
            }
        }
        Err(Error::Wrong(self.path.into(), "has no address to fetch it from".into()))
    }

    /// One request, if the part is not whole; its hash, which is the right one.
    fn attempt(
        &self,
        part: &mut Part,
        url: &str,
        options: &FetchOptions,
        report: Report<'_>,
    ) -> Result<String> {
        let mut mended = true;
        if self.size.is_none_or(|size| part.len != size) {
            let (body, total) = self.begin(part, url, options)?;
            mended = part.len > 0;
            report(Event::Begin { path: self.path, done: part.len, total });
            self.receive(part, body, total, url, report)?;
        }
        let actual = hash::sha256_of(&part.path)?;
        if self.pin.admits(&actual) {
            return Ok(actual);
        }
        part.restart()?;
        let remedy = "what was fetched is removed; if the publisher has changed the file, mend the manifest or the record beside it";
        let detail = self.pin.complaint(&shown(url), &actual, remedy);
        // The halves may be of different contents: once from the start tells.
        Err(if mended { Error::Network } else { Error::Wrong }(self.path.into(), detail))
    }

    /// The body that belongs behind the bytes of the part, and the whole file's size if anybody tells it.
    fn begin(&self, part: &mut Part, url: &str, options: &FetchOptions) -> Result<(Body, Option<u64>)> {
        // Only the hash of the whole tells whether two halves belong together.
        if self.pin.0.is_empty() || self.size.is_some_and(|size| part.len > size) {
            part.restart()?;
        }
        let wrong = |detail: &str| Err(Error::at(Error::Wrong, self.path, url, detail));
        let response = ask(self.path, url, self.bearer, part.len, options)?;
        let headers = response.headers();
        let range = text(headers, header::CONTENT_RANGE).unwrap_or_default();
        let total = match response.status().as_u16() {
            200 => {
                part.restart()?;
                text(headers, header::CONTENT_LENGTH)
            }
            206 if part.len > 0 && range.starts_with(&format!("bytes {}-", part.len)) => {
                range.rsplit('/').next().map(str::to_owned)
            }
            _ => {
                part.restart()?;
                let detail = "there is no such part of it; starting over";
                return Err(Error::at(Error::Network, self.path, url, detail));
            }
        };
        let total: Option<u64> = total.and_then(|total| total.trim().parse().ok());
        match (self.size, total) {
            (Some(stated), Some(total)) if stated != total => wrong(&format!(
                "it has {total} bytes where {stated} are stated; mend the manifest if that is right"
            )),
            _ if headers.contains_key(header::CONTENT_ENCODING) => {
                wrong("the answer is encoded, which was not asked for; put another address into the manifest")
            }
            (None, None) if self.pin.0.is_empty() && !headers.contains_key(header::TRANSFER_ENCODING) => {
                wrong(
                    "the answer tells no length, so that a broken one looks whole; put size into the manifest",
                )
            }
            _ => Ok((response.into_body(), total.or(self.size))),
        }
    }

    /// Appends the body to the part, which has `total` bytes then.
    fn receive(
        &self,
        part: &mut Part,
        body: Body,
        total: Option<u64>,
        url: &str,
        report: Report<'_>,
    ) -> Result<()> {
        let (mut body, mut buffer) = (body.into_reader(), vec![0; BUFFER]);
        let broken = |at: u64, why: &str| {
            let of = total.map_or_else(String::new, |total| format!(" of {total}"));
            Err(Error::at(Error::Network, self.path, url, format!("it broke at byte {at}{of}{why}")))
        };
        loop {
            let n = match body.read(&mut buffer) {
                Ok(0) if total.is_some_and(|total| part.len < total) => return broken(part.len, ""),
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(error) => return broken(part.len, &format!(": {error}")),
            };
            if total.is_some_and(|total| part.len + n as u64 > total) {
                part.restart()?;
                let detail = "it sends more than was promised; the manifest or the server is wrong";
                return Err(Error::at(Error::Wrong, self.path, url, detail));
            }
            part.file.write_all(&buffer[..n]).map_err(Error::io("write", &part.path))?;
            part.len += n as u64;
            report(Event::Advance(part.len));
        }
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// A file that is not whole yet, `<name>.part`.
struct Part {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Part {
    /// Opens what an earlier process left of `target`; nothing but a regular file is taken for that.
    fn open(target: &Path) -> Result<Self> {
        let path = beside(target, "part");
        let opened = check_output(&path).and_then(|()| {
            let mut file = File::options().create(true).append(true).open(&path)?;
            Ok((file.seek(SeekFrom::End(0))?, file))
        });
        let (len, file) = opened.map_err(Error::io("open", &path))?;
        Ok(Self { path, file, len })
    }

    fn restart(&mut self) -> Result<()> {
        self.len = 0;
        self.file.set_len(0).map_err(Error::io("cut", &self.path))
    }

    /// Makes the bytes durable and gives them their final name.
    fn commit(self, target: &Path) -> Result<()> {
        self.file.sync_all().map_err(Error::io("write", &self.path))?;
        fs::rename(&self.path, target).map_err(Error::io("move into place", target))
    }
}
