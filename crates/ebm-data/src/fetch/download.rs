//! From an address to a file in its place: attempts, resumption, hash, rename.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use ebm_seed::Key;

use super::error::{Error, Result};
use super::hash::{self, BUFFER, Pin};
use super::http::{self, Answer, Ask, Resume};
use super::hub::Hub;
use super::part::{Meta, Part};
use super::patience::Patience;
use super::{Event, Report, space};

/// Bytes that must be new for a failed attempt not to count.
const PROGRESS: u64 = 1 << 20;

/// How long is waited, and how often is tried.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Whether nothing is fetched: what is there is verified, what is missing is listed.
    pub offline: bool,
    /// Attempts in a row without a new mebibyte, after which an address is given up.
    pub attempts: u32,
    /// A connection that sends nothing, or less than `min_rate`, for this long is cut.
    pub stall: Duration,
    /// Bytes per second.
    pub min_rate: f64,
    /// The first wait between two attempts; each wait is twice the one before, times a number drawn from 0.5 to 1.5.
    pub backoff: Duration,
    /// No wait is longer. A server that asks for more (`Retry-After`) gets an error instead.
    pub longest_wait: Duration,
    /// Where the waits are drawn from. Processes that fetch the same should have different keys.
    pub key: Key,
    /// The most bytes of a file whose size the manifest does not state.
    pub most_unstated: u64,
    /// Bytes of the disk that a body of unknown length leaves free.
    pub keep_free: u64,
    /// For files of the Hugging Face Hub.
    pub hub: Option<Hub>,
}

impl FetchOptions {
    /// 5 attempts, 30 s without 1 KiB/s, waits of about 1, 2, 4 and 8 s, 120 s at most; 16 GiB of unstated size, 256 MiB kept
    /// free; no Hub.
    pub fn new(key: Key) -> Self {
        Self {
            offline: false,
            attempts: 5,
            stall: Duration::from_secs(30),
            min_rate: 1024.0,
            backoff: Duration::from_secs(1),
            longest_wait: Duration::from_secs(120),
            key,
            most_unstated: 16 << 30,
            keep_free: 256 << 20,
            hub: None,
        }
    }
}

/// What is to come.
pub(super) struct Target<'a> {
    pub path: &'a Path,
    pub urls: &'a [String],
    pub pin: &'a Pin,
    pub size: Option<u64>,
    /// Further bytes that must be free, for what is unpacked.
    pub reserve: u64,
    /// Whether a hash that the pin does not tell whole is recorded beside the file.
    pub record: bool,
    /// Sent to the hosts of `urls` alone.
    pub bearer: Option<&'a str>,
}

/// Why an attempt failed.
enum Failure {
    /// Another attempt may do better, after the server's wait if it asks for one.
    Passing(Box<Error>, Option<Duration>),
    Final(Box<Error>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(Box::new(error))
    }
}

/// Fetches the file from the first address that has it; its hash. The caller holds the lock.
pub(super) fn download(target: &Target<'_>, options: &FetchOptions, report: Report<'_>) -> Result<String> {
    let mut urls = target.urls.iter().peekable();
    while let Some(url) = urls.next() {
        let mut part = Part::open(target.path)?;
        match from_address(target, url, &mut part, options, report) {
            Ok(sha256) => {
                if target.record {
                    hash::record(target.path, &sha256)?;
                }
                part.commit()?;
                return Ok(sha256);
            }
            Err(error) => {
                let wrong = matches!(
                    error,
                    Error::WrongHash { .. } | Error::LongBody { .. } | Error::Unbounded { .. }
                );
                if wrong || !part.is_of_use() {
                    part.discard();
                }
                if urls.peek().is_none() || !error.is_of_the_address() {
                    return Err(error);
                }
                report(Event::Retry { error: &error, wait: Duration::ZERO });
            }
        }
    }
    let detail = "has no address to fetch it from".into();
    Err(Error::Manifest { path: target.path.into(), detail })
}

fn from_address(
    target: &Target<'_>,
    url: &str,
    part: &mut Part,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<String> {
    let mut patience = Patience::new(url, options);
    let mut furthest = part.len();
    loop {
        let attempt = attempt(target, url, part, options, report).and_then(|()| check(target, url, part));
        let (error, asked) = match attempt {
            Ok(sha256) => return Ok(sha256),
            Err(Failure::Final(error)) => return Err(*error),
            Err(Failure::Passing(error, asked)) => (*error, asked),
        };
        if part.len() >= furthest.saturating_add(PROGRESS) {
            patience.renew();
        }
        furthest = furthest.max(part.len());
        patience.wait(error, asked, report)?;
    }
}

/// The head of the answer, after as many attempts as a download has.
pub(super) fn describe(ask: &Ask<'_>, options: &FetchOptions, report: Report<'_>) -> Result<Answer> {
    let mut patience = Patience::new(ask.url, options);
    loop {
        let failure = match http::get(ask) {
            Ok(answer) if answer.status < 400 => return Ok(answer),
            Ok(answer) => refusal(ask.path, ask.url, answer.status, answer.retry_after, options),
            Err(error @ Error::Network { .. }) => Failure::Passing(error.into(), None),
            Err(error) => return Err(error),
        };
        match failure {
            Failure::Final(error) => return Err(*error),
            Failure::Passing(error, asked) => patience.wait(*error, asked, report)?,
        }
    }
}

/// One request; afterwards the part is whole.
fn attempt(
    target: &Target<'_>,
    url: &str,
    part: &mut Part,
    options: &FetchOptions,
    report: Report<'_>,
) -> std::result::Result<(), Failure> {
    let path = target.path;
    let resumed = resumable(target, url, part);
    if let Some(meta) = &resumed
        && meta.total == Some(part.len())
    {
        return Ok(());
    }
    let resume = resumed.as_ref().map(|meta| Resume { start: part.len(), validator: meta.validator() });
    let ask = Ask { path, url, resume, stall: options.stall, bearer: target.bearer, facts: false };
    let answer = http::get(&ask).map_err(|error| match error {
        Error::Network { .. } => Failure::Passing(error.into(), None),
        other => Failure::Final(other.into()),
    })?;
    accept(target, url, part, &answer, resumed.as_ref(), options)?;
    if let Some(encoding) = &answer.encoding {
        part.restart(None)?;
        let detail = format!("the answer is in the encoding {encoding}, which was not asked for");
        return Err(protocol(path, url, &detail).into());
    }
    receive(target, url, part, answer, options, report)
}

/// Makes the part ready for the answer's body: all of the file, or the rest of the same content.
fn accept(
    target: &Target<'_>,
    url: &str,
    part: &mut Part,
    answer: &Answer,
    resumed: Option<&Meta>,
    options: &FetchOptions,
) -> std::result::Result<(), Failure> {
    let path = target.path;
    match (answer.status, resumed) {
        (200, _) => {
            let meta = Meta {
                url: url.into(),
                total: answer.length.or(target.size),
                etag: answer.etag.clone(),
                last_modified: answer.last_modified.clone(),
            };
            if let (Some(expected), Some(actual)) = (target.size, answer.length)
                && expected != actual
            {
                return Err(Error::Size { path: path.into(), origin: url.into(), expected, actual }.into());
            }
            let limit = options.most_unstated;
            if target.size.is_none() && answer.length.is_some_and(|length| length > limit) {
                return Err(Error::Unbounded { path: path.into(), url: url.into(), limit }.into());
            }
            if meta.total.is_none() && !answer.chunked && *target.pin == Pin::FirstUse {
                let detail = "the answer tells no length, so a broken one could not be told";
                return Err(protocol(path, url, detail).into());
            }
            part.restart(Some(meta))?;
        }
        (206, Some(meta)) => {
            let same = answer.range == meta.total.map(|total| (part.len(), total))
                && agrees(&answer.etag, &meta.etag)
                && agrees(&answer.last_modified, &meta.last_modified);
            if !same {
                part.restart(None)?;
                let detail = "the content has changed since the first part was fetched; starting over";
                return Err(Failure::Passing(protocol(path, url, detail).into(), None));
            }
            part.mended = true;
        }
        (416, Some(_)) => {
            part.restart(None)?;
            let detail = "the server has no such part; starting over";
            return Err(Failure::Passing(protocol(path, url, detail).into(), None));
        }
        (status, _) => return Err(refusal(path, url, status, answer.retry_after, options)),
    }
    Ok(())
}

fn protocol(path: &Path, url: &str, detail: &str) -> Error {
    Error::Protocol { path: path.into(), url: url.into(), detail: detail.into() }
}

/// The description of the part, if the rest of it may be asked for.
fn resumable(target: &Target<'_>, url: &str, part: &Part) -> Option<Meta> {
    let meta = part.meta()?;
    let total = meta.total?;
    let sizes_agree = target.size.is_none_or(|size| size == total);
    // Without a validator of the server, only the hash of the whole can tell that two halves belong together.
    let told_apart = meta.validator().is_some() || *target.pin != Pin::FirstUse;
    (part.len() > 0 && part.len() <= total && meta.url == url && sizes_agree && told_apart)
        .then(|| meta.clone())
}

fn agrees(now: &Option<String>, before: &Option<String>) -> bool {
    now.is_none() || before.is_none() || now == before
}

fn refusal(path: &Path, url: &str, status: u16, asked: Option<Duration>, options: &FetchOptions) -> Failure {
    let (path, url) = (path.to_owned(), url.to_owned());
    let busy = matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
    match asked {
        Some(wait) if busy && wait > options.longest_wait => {
            Failure::Final(Error::RetryLater { path, url, status, wait }.into())
        }
        _ if busy => Failure::Passing(Error::Status { path, url, status }.into(), asked),
        _ => Failure::Final(Error::Status { path, url, status }.into()),
    }
}

/// Appends the answer's body.
fn receive(
    target: &Target<'_>,
    url: &str,
    part: &mut Part,
    mut answer: Answer,
    options: &FetchOptions,
    report: Report<'_>,
) -> std::result::Result<(), Failure> {
    let (path, url) = (target.path, url.to_owned());
    let total = part.meta().and_then(|meta| meta.total);
    let left =
        |part: &Part| total.map_or(0, |total| total - part.len().min(total)).saturating_add(target.reserve);
    let free = path.parent().and_then(space::free);
    if let Some(free) = free.filter(|&free| free < left(part)) {
        return Err(Error::DiskFull { path: path.into(), needed: left(part), free: Some(free) }.into());
    }
    report(Event::Begin { path, url: &url, done: part.len(), total });
    let least = (options.min_rate * options.stall.as_secs_f64()) as u64;
    let stalled = |received| {
        let error =
            Error::Stalled { path: path.into(), url: url.clone(), received, least, window: options.stall };
        Failure::Passing(error.into(), None)
    };
    let (mut window, mut in_window) = (Instant::now(), 0);
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = match answer.body.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Err(stalled(part.len())),
            Err(_) if total.is_some_and(|total| part.len() < total) => break,
            Err(error) => {
                let error = Error::Network { path: path.into(), url, detail: error.to_string() };
                return Err(Failure::Passing(error.into(), None));
            }
        };
        let len = part.len() + n as u64;
        match total {
            Some(expected) if len > expected => {
                return Err(Error::LongBody { path: path.into(), url, expected }.into());
            }
            None => check_unknown(path, &url, (part.len(), len), options)?,
            Some(_) => {}
        }
        part.append(&buffer[..n], left(part))?;
        report(Event::Advance { done: part.len() });
        in_window += n as u64;
        if window.elapsed() >= options.stall {
            if in_window < least {
                return Err(stalled(part.len()));
            }
            (window, in_window) = (Instant::now(), 0);
        }
    }
    match total {
        Some(expected) if part.len() < expected => {
            let error = Error::ShortBody { path: path.into(), url, expected, actual: part.len() };
            Err(Failure::Passing(error.into(), None))
        }
        _ => Ok(()),
    }
}

/// Whether a body of unknown length may grow from one length to another: within the limit, and with room left on the disk.
fn check_unknown(path: &Path, url: &str, (from, to): (u64, u64), options: &FetchOptions) -> Result<()> {
    let (limit, needed) = (options.most_unstated, options.keep_free);
    if to > limit {
        return Err(Error::Unbounded { path: path.into(), url: url.into(), limit });
    }
    if from / PROGRESS == to / PROGRESS {
        return Ok(());
    }
    match path.parent().and_then(space::free) {
        Some(free) if free < needed => Err(Error::DiskFull { path: path.into(), needed, free: Some(free) }),
        _ => Ok(()),
    }
}

/// The hash of the whole part, if it is the right one.
fn check(target: &Target<'_>, url: &str, part: &mut Part) -> std::result::Result<String, Failure> {
    let actual = part.sha256();
    if target.pin.admits(&actual) {
        return Ok(actual);
    }
    let error = Error::WrongHash {
        path: target.path.into(),
        origin: url.into(),
        expected: target.pin.expected(),
        actual,
        remedy: "what was fetched is removed; if the publisher has changed the file, mend the manifest or the record beside it",
    };
    if part.mended {
        // The halves may be of different contents: once from the start tells.
        part.restart(None)?;
        return Err(Failure::Passing(error.into(), None));
    }
    Err(Failure::Final(error.into()))
}
