//! Download of an address to a file: attempts, resumption, hash, rename.

use std::borrow::Cow;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_base::files::check_output;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderName, HeaderValue, Response, Uri, header};
use ureq::{Agent, Body, ResponseExt as _};

use super::{Event, Report, io_error, sha256_of};
use crate::error::{Error, Result};

/// Size of the read buffer, in bytes.
const BUFFER: usize = 1 << 16;
/// Number of failed attempts in a row without [`PROGRESS`] after which the download fails.
const ATTEMPTS: u32 = 5;
/// Number of new bytes that resets the count of failed attempts.
const PROGRESS: u64 = 1 << 20;
/// Longest wait that a server may ask for; a longer one is an error.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Options of a download: offline or not, and waiting times.
#[derive(Clone)]
pub struct FetchOptions {
    /// `true` to fetch nothing: files that exist are verified, missing files are listed.
    pub offline: bool,
    /// A connection without data for this long is cut; one minute by default.
    pub stall: Duration,
    /// First wait between two attempts, one second by default. Each further wait is twice the one before.
    pub backoff: Duration,
}

impl Default for FetchOptions {
    fn default() -> Self {
        let [backoff, stall] = [1, 60].map(Duration::from_secs);
        Self { offline: false, stall, backoff }
    }
}

/// Parses the address if it is allowed: https, or http on this machine. Also returns whether it is on this machine.
fn allowed(url: &str) -> Option<(Uri, bool)> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host().filter(|host| !host.is_empty())?.trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let scheme = uri.scheme_str()?;
    (scheme == "https" || scheme == "http" && local).then_some((uri, local))
}

/// Returns an address for messages, without a user's name and password.
fn redacted(address: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = address.split_once("://") else { return address.into() };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]).into(),
        None => address.into(),
    }
}

/// Calls `once` until it succeeds or further attempts are useless. It returns the number of bytes received so far.
pub(super) fn retry<T>(
    options: &FetchOptions,
    report: Report<'_>,
    once: &mut dyn FnMut(Report<'_>) -> (u64, Result<T>),
) -> Result<T> {
    let (mut failures, mut furthest) = (0, 0);
    loop {
        let (done, outcome) = once(report);
        let Err(Error::Network(_, _, asked)) = &outcome else { return outcome };
        failures = if done >= furthest + PROGRESS { 1 } else { failures + 1 };
        furthest = furthest.max(done);
        if failures >= ATTEMPTS {
            return outcome;
        }
        let wait = asked.unwrap_or(options.backoff.saturating_mul(1 << (failures - 1)));
        if let Err(error) = &outcome {
            report(Event::Retry(error, wait));
        }
        std::thread::sleep(wait);
    }
}

/// Address and file of a download.
pub(super) struct Target<'a> {
    pub path: &'a Path,
    pub url: &'a str,
    /// First digits of the file's hash; empty if unknown.
    pub sha256: &'a str,
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// Token for the host of the address.
    pub bearer: Option<&'a str>,
}

impl Target<'_> {
    /// Returns an error of this `kind` about the content at the address.
    pub fn error(&self, kind: fn(PathBuf, String) -> Error, detail: impl Display) -> Error {
        kind(self.path.into(), format!("{}: {detail}", redacted(self.url)))
    }

    pub fn broken(&self, detail: impl Display) -> Error {
        self.error(|path, detail| Error::Network(path, detail, None), detail)
    }

    /// Requests the address, from the byte `start` on. Redirects stay on https. The token is sent only to the
    /// host and port of the address.
    pub fn ask(&self, start: u64, options: &FetchOptions) -> Result<Response<Body>> {
        let refused = || self.error(Error::Data, "only https, or http on this machine");
        let (uri, local) = allowed(self.url).ok_or_else(refused)?;
        let stall = Some(options.stall);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!local)
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .accept_encoding("identity")
            .user_agent(concat!("ebm/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(stall)
            .timeout_connect(stall)
            .timeout_send_request(stall)
            .timeout_recv_response(stall)
            .timeout_per_read(stall);
        // A proxy of the environment is for other machines.
        let config = if local { config.proxy(None) } else { config };
        let (agent, token) = (config.build().new_agent(), self.token()?);
        let send = |uri: &Uri| {
            let mut request = agent.get(uri);
            if let Some(token) = &token {
                request = request.header(header::AUTHORIZATION, token.clone());
            }
            if start > 0 {
                request = request.header(header::RANGE, format!("bytes={start}-"));
            }
            request.call().map_err(|error| match error {
                ureq::Error::RequireHttpsOnly(_) | ureq::Error::TooManyRedirects => {
                    self.error(Error::Data, error)
                }
                _ => self.broken(error),
            })
        };
        let mut response = send(&uri)?;
        // A redirect drops the token, since ureq's comparison of hosts leaves out their ports.
        let (last, status) = (response.get_uri().clone(), response.status().as_u16());
        let is_same = last.scheme() == uri.scheme() && last.authority() == uri.authority();
        if token.is_some() && matches!(status, 401 | 403 | 404) && is_same && last != uri {
            response = send(&last)?;
        }
        match response.status().as_u16() {
            200 | 206 => Ok(response),
            416 if start > 0 => Ok(response),
            status => Err(self.refusal(status, text(&response, header::RETRY_AFTER).parse().ok())),
        }
    }

    /// Returns the header with the token, if there is one.
    fn token(&self) -> Result<Option<HeaderValue>> {
        let Some(token) = self.bearer else { return Ok(None) };
        let detail = "the token in HF_TOKEN, or of a login, holds a character that none has; set it again";
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| self.error(Error::Data, detail))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Returns the error of an answer without the file. The server may ask to `wait` a number of seconds.
    fn refusal(&self, status: u16, wait: Option<u64>) -> Error {
        let wait = wait.map(Duration::from_secs);
        let advice = match (status, wait) {
            (408 | 425 | 429 | 500 | 502..=504, wait) if wait.is_none_or(|wait| wait <= LONGEST_WAIT) => {
                let answer = format!("{} answers {status}", redacted(self.url));
                return Error::Network(self.path.into(), answer, wait);
            }
            (401 | 403, _) => {
                "it is not for everybody; for a repository of the Hub accept its terms on its page, and set \
                 HF_TOKEN to a token that may read it"
            }
            (404 | 410, _) => "there is no such file; see its page for its present name",
            (_, Some(wait)) => &format!("it asks to wait {} s; run again after that", wait.as_secs()),
            _ => "run again later, or see its page for another address",
        };
        Error::Failure(self.path.into(), format!("{} answers {status}: {advice}", redacted(self.url)))
    }

    /// Fetches the file and returns its hash. The caller holds the lock.
    pub fn fetch(&self, options: &FetchOptions, report: Report<'_>) -> Result<String> {
        let mut part = Part::open(self.path)?;
        let outcome = retry(options, report, &mut |report| {
            let outcome = self.attempt(&mut part, options, report);
            report(Event::End);
            (part.len, outcome)
        });
        if outcome.is_err() && (part.len == 0 || self.sha256.is_empty()) {
            // A later process could not continue from it.
            let _ = fs::remove_file(&part.path);
        }
        let sha256 = outcome?;
        part.file.sync_all().map_err(io_error("write", &part.path))?;
        fs::rename(&part.path, self.path).map_err(io_error("move into place", self.path))?;
        Ok(sha256)
    }

    /// Makes one request, unless the part is complete, and returns the verified hash.
    fn attempt(&self, part: &mut Part, options: &FetchOptions, report: Report<'_>) -> Result<String> {
        let mut mended = true;
        if self.size.is_none_or(|size| part.len != size) {
            let (body, total) = self.begin(part, options)?;
            mended = part.len > 0;
            report(Event::Begin { path: self.path, done: part.len, total });
            self.receive(part, body, total, report)?;
        }
        let actual = sha256_of(&part.path)?;
        if actual.starts_with(self.sha256) {
            return Ok(actual);
        }
        part.restart()?;
        let detail = format!(
            "it has SHA-256 {actual} where {} is expected; what was fetched is removed; if the publisher has changed \
             the file, mend the manifest",
            self.sha256
        );
        // The two halves may come from different contents; a download from the start decides.
        Err(if mended { self.broken(detail) } else { self.error(Error::Data, detail) })
    }

    /// Returns the body that continues the part, and the size of the whole file if it is known.
    fn begin(&self, part: &mut Part, options: &FetchOptions) -> Result<(Body, Option<u64>)> {
        // Only the hash of the whole shows whether two halves belong together.
        if self.sha256.is_empty() || self.size.is_some_and(|size| part.len > size) {
            part.restart()?;
        }
        let response = self.ask(part.len, options)?;
        let (status, range) = (response.status().as_u16(), text(&response, header::CONTENT_RANGE));
        let goes_on = status == 206 && part.len > 0 && range.starts_with(&format!("bytes {}-", part.len));
        if !goes_on {
            part.restart()?;
        }
        if !(goes_on || status == 200) {
            return Err(self.broken("there is no such part of it; starting over"));
        }
        let whole = text(&response, header::CONTENT_LENGTH);
        let total = if goes_on { range.rsplit('/').next().unwrap_or_default() } else { whole };
        let total: Option<u64> = total.trim().parse().ok();
        let chunked = response.headers().contains_key(header::TRANSFER_ENCODING);
        match (self.size, total) {
            (Some(stated), Some(total)) if stated != total => {
                let detail = format!(
                    "it has {total} bytes where {stated} are stated; mend the manifest if that is right"
                );
                Err(self.error(Error::Data, detail))
            }
            (None, None) if self.sha256.is_empty() && !chunked => {
                let detail = "the answer tells no length, so that a broken one looks whole; put size into the manifest";
                Err(self.error(Error::Data, detail))
            }
            _ => Ok((response.into_body(), total.or(self.size))),
        }
    }

    /// Appends the body to the part, which then has `total` bytes.
    fn receive(&self, part: &mut Part, body: Body, total: Option<u64>, report: Report<'_>) -> Result<()> {
        let (mut body, mut buffer) = (body.into_reader(), vec![0; BUFFER]);
        loop {
            let n = match body.read(&mut buffer) {
                Ok(0) if total.is_some_and(|total| part.len < total) => {
                    return Err(self.broken(format!("it broke at byte {}", part.len)));
                }
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(error) => return Err(self.broken(format!("it broke at byte {}: {error}", part.len))),
            };
            if total.is_some_and(|total| part.len + n as u64 > total) {
                part.restart()?;
                let detail = "it sends more than was promised; the manifest or the server is wrong";
                return Err(self.error(Error::Data, detail));
            }
            part.file.write_all(&buffer[..n]).map_err(io_error("write", &part.path))?;
            part.len += n as u64;
            report(Event::Advance(part.len));
        }
    }
}

fn text(response: &Response<Body>, name: HeaderName) -> &str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns `<path>.<suffix>`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// A file that is not complete yet, `<name>.part`.
struct Part {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Part {
    /// Opens the part of `target` that an earlier process left, or creates it. It must be a regular file.
    fn open(target: &Path) -> Result<Self> {
        let path = beside(target, "part");
        let opened = check_output(&path).and_then(|()| {
            let mut file = File::options().create(true).append(true).open(&path)?;
            Ok((file.seek(SeekFrom::End(0))?, file))
        });
        let (len, file) = opened.map_err(io_error("open", &path))?;
        Ok(Self { path, file, len })
    }

    fn restart(&mut self) -> Result<()> {
        self.len = 0;
        self.file.set_len(0).map_err(io_error("cut", &self.path))
    }
}
