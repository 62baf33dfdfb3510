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
    /// The first wait between two attempts; each wait is twice the one before, times a number drawn from 0.5
    /// to 1.5.
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
    /// 5 attempts, 30 s without 1 KiB/s, waits of about 1, 2, 4 and 8 s, 120 s at most; 16 GiB of unstated
    /// size, 256 MiB kept free; no Hub.
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
        match (Transfer { target, url, options }).run(&mut part, report) {
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

/// The head of the answer, after as many attempts as a download has.
pub(super) fn describe(ask: &Ask<'_>, options: &FetchOptions, report: Report<'_>) -> Result<Answer> {
    let answer = persist(ask.path, ask.url, options, report, &mut |_| http::get(ask))?;
    match answer.status {
        ..400 => Ok(answer),
        status => Err(Error::Status { path: ask.path.into(), url: ask.url.into(), status }),
    }
}

/// What `ask` is answered, after as many attempts as a download has; no answer of a server that is busy.
pub(super) fn persist(
    path: &Path,
    url: &str,
    options: &FetchOptions,
    report: Report<'_>,
    ask: &mut dyn FnMut(Report<'_>) -> Result<Answer>,
) -> Result<Answer> {
    let mut patience = Patience::new(url, options);
    loop {
        let failure = match ask(report) {
            Ok(answer) if !is_busy(answer.status) => return Ok(answer),
            Ok(answer) => refusal(path, url, answer.status, answer.retry_after, options),
            Err(error @ Error::Network { .. }) => Failure::Passing(error.into(), None),
            Err(error) => return Err(error),
        };
        match failure {
            Failure::Final(error) => return Err(*error),
            Failure::Passing(error, asked) => patience.wait(*error, asked, report)?,
        }
    }
}

/// A download from one address.
struct Transfer<'a> {
    target: &'a Target<'a>,
    url: &'a str,
    options: &'a FetchOptions,
}

type Attempt<T> = std::result::Result<T, Failure>;

impl Transfer<'_> {
    /// Attempts until the part is whole, or no further one may do better; its hash.
    fn run(&self, part: &mut Part, report: Report<'_>) -> Result<String> {
        let mut patience = Patience::new(self.url, self.options);
        let mut furthest = part.len();
        loop {
            let (error, asked) = match self.attempt(part, report).and_then(|()| self.check(part)) {
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

    /// One request; afterwards the part is whole.
    fn attempt(&self, part: &mut Part, report: Report<'_>) -> Attempt<()> {
        let resumed = self.resumable(part);
        if resumed.as_ref().is_some_and(|meta| meta.total == Some(part.len())) {
            return Ok(());
        }
        let resume = resumed.as_ref().map(|meta| Resume { start: part.len(), validator: meta.validator() });
        let Self { target: Target { path, bearer, .. }, url, options } = *self;
        let ask = Ask { path, url, resume, stall: options.stall, bearer: *bearer, facts: false };
        let answer = http::get(&ask).map_err(|error| match error {
            Error::Network { .. } => Failure::Passing(error.into(), None),
            other => Failure::Final(other.into()),
        })?;
        self.accept(part, &answer, resumed.as_ref())?;
        if let Some(encoding) = &answer.encoding {
            part.restart(None)?;
            let detail = format!("the answer is in the encoding {encoding}, which was not asked for");
            return Err(self.protocol(&detail).into());
        }
        self.receive(part, answer, report)
    }

    /// The description of the part, if the rest of it may be asked for.
    fn resumable(&self, part: &Part) -> Option<Meta> {
        let (meta, target) = (part.meta()?, self.target);
        let total = meta.total?;
        let sizes_agree = target.size.is_none_or(|size| size == total);
        // Without a validator of the server, only the hash of the whole can tell that two halves belong
        // together.
        let told_apart = meta.validator().is_some() || *target.pin != Pin::FirstUse;
        (part.len() > 0 && part.len() <= total && meta.url == self.url && sizes_agree && told_apart)
            .then(|| meta.clone())
    }

    /// Makes the part ready for the answer's body: all of the file, or the rest of the same content.
    fn accept(&self, part: &mut Part, answer: &Answer, resumed: Option<&Meta>) -> Attempt<()> {
        let Self { target: Target { path, size, pin, .. }, url, options } = *self;
        match (answer.status, resumed) {
            (200, _) => {
                let meta = Meta {
                    url: url.into(),
                    total: answer.length.or(*size),
                    etag: answer.etag.clone(),
                    last_modified: answer.last_modified.clone(),
                };
                if let (Some(expected), Some(actual)) = (*size, answer.length)
                    && expected != actual
                {
                    let (path, origin) = (path.to_path_buf(), url.to_owned());
                    return Err(Error::Size { path, origin, expected, actual }.into());
                }
                if meta.total.is_none() && !answer.chunked && **pin == Pin::FirstUse {
                    let detail = "the answer tells no length, so a broken one could not be told";
                    return Err(self.protocol(detail).into());
                }
                Ok(part.restart(Some(meta))?)
            }
            (206, Some(meta)) => {
                let same = answer.range == meta.total.map(|total| (part.len(), total))
                    && agrees(&answer.etag, &meta.etag)
                    && agrees(&answer.last_modified, &meta.last_modified);
                if !same {
                    let why = "the content has changed since the first part was fetched; starting over";
                    return self.start_over(part, self.protocol(why));
                }
                part.mended = true;
                Ok(())
            }
            (416, Some(_)) => {
                self.start_over(part, self.protocol("the server has no such part; starting over"))
            }
            (status, _) => Err(refusal(path, url, status, answer.retry_after, options)),
        }
    }

    /// Appends the answer's body.
    fn receive(&self, part: &mut Part, mut answer: Answer, report: Report<'_>) -> Attempt<()> {
        let Self { target: &Target { path, reserve, .. }, url, options } = *self;
        let total = part.meta().and_then(|meta| meta.total);
        let left =
            |part: &Part| total.map_or(0, |total| total - part.len().min(total)).saturating_add(reserve);
        let free = path.parent().and_then(space::free);
        if let Some(free) = free.filter(|&free| free < left(part)) {
            return Err(Error::DiskFull { path: path.into(), needed: left(part), free: Some(free) }.into());
        }
        report(Event::Begin { path, url, done: part.len(), total });
        let least = (options.min_rate * options.stall.as_secs_f64()) as u64;
        let passing = |error: Error| Err(Failure::Passing(error.into(), None));
        let stalled = |received| {
            let window = options.stall;
            passing(Error::Stalled { path: path.into(), url: url.into(), received, least, window })
        };
        let (mut window, mut in_window) = (Instant::now(), 0);
        let mut buffer = vec![0; BUFFER];
        loop {
            let n = match answer.body.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return stalled(part.len()),
                Err(_) if total.is_some_and(|total| part.len() < total) => break,
                Err(error) => {
                    let detail = error.to_string();
                    return passing(Error::Network { path: path.into(), url: url.into(), detail });
                }
            };
            self.check_growth(part.len(), part.len() + n as u64, total)?;
            part.append(&buffer[..n], left(part))?;
            report(Event::Advance { done: part.len() });
            in_window += n as u64;
            if window.elapsed() >= options.stall {
                if in_window < least {
                    return stalled(part.len());
                }
                (window, in_window) = (Instant::now(), 0);
            }
        }
        match total.filter(|&expected| part.len() < expected) {
            Some(expected) => {
                let actual = part.len();
                passing(Error::ShortBody { path: path.into(), url: url.into(), expected, actual })
            }
            None => Ok(()),
        }
    }

    /// Whether a part may grow from one length to another: not beyond `total`, which the server told, nor
    /// beyond the limit where the manifest states no size; and where nobody tells one, the disk keeps some
    /// room.
    fn check_growth(&self, from: u64, to: u64, total: Option<u64>) -> Result<()> {
        let (path, url) = (self.target.path.to_owned(), self.url.to_owned());
        if let Some(expected) = total.filter(|&total| to > total) {
            return Err(Error::LongBody { path, url, expected });
        }
        let limit = self.options.most_unstated;
        if self.target.size.is_none() && to.max(total.unwrap_or(0)) > limit {
            return Err(Error::Unbounded { path, url, limit });
        }
        if total.is_some() || from / PROGRESS == to / PROGRESS {
            return Ok(());
        }
        let needed = self.options.keep_free;
        match path.parent().and_then(space::free) {
            Some(free) if free < needed => Err(Error::DiskFull { path, needed, free: Some(free) }),
            _ => Ok(()),
        }
    }

    /// The hash of the whole part, if it is the right one.
    fn check(&self, part: &mut Part) -> Attempt<String> {
        let (pin, actual) = (self.target.pin, part.sha256());
        if pin.admits(&actual) {
            return Ok(actual);
        }
        let error = Error::WrongHash {
            path: self.target.path.into(),
            origin: self.url.into(),
            expected: pin.expected(),
            actual,
            remedy: "what was fetched is removed; if the publisher has changed the file, mend the manifest or the record beside it",
        };
        // The halves may be of different contents: once from the start tells.
        if part.mended { self.start_over(part, error) } else { Err(error.into()) }
    }

    /// Drops what is here, for another attempt.
    fn start_over<T>(&self, part: &mut Part, why: Error) -> Attempt<T> {
        part.restart(None)?;
        Err(Failure::Passing(why.into(), None))
    }

    fn protocol(&self, detail: &str) -> Error {
        Error::Protocol { path: self.target.path.into(), url: self.url.into(), detail: detail.into() }
    }
}

fn agrees(now: &Option<String>, before: &Option<String>) -> bool {
    now.is_none() || before.is_none() || now == before
}

fn refusal(path: &Path, url: &str, status: u16, asked: Option<Duration>, options: &FetchOptions) -> Failure {
    let (path, url) = (path.to_owned(), url.to_owned());
    let busy = is_busy(status);
    match asked {
        Some(wait) if busy && wait > options.longest_wait => {
            Failure::Final(Error::RetryLater { path, url, status, wait }.into())
        }
        _ if busy => Failure::Passing(Error::Status { path, url, status }.into(), asked),
        _ => Failure::Final(Error::Status { path, url, status }.into()),
    }
}

/// Whether a server that answers so may answer otherwise a little later.
fn is_busy(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}
