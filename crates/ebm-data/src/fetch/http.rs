//! One request and what the answer promises.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Response, Uri, header};
use ureq::{Agent, Body, SendBody};

use super::address;
use super::error::{Error, Result};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 10;

/// Bytes wanted from `start` on, if the content is still that of `validator`.
pub(super) struct Resume<'a> {
    pub start: u64,
    pub validator: Option<&'a str>,
}

/// What is asked for.
pub(super) struct Ask<'a> {
    /// The file that it is for, in messages.
    pub path: &'a Path,
    pub url: &'a str,
    pub resume: Option<Resume<'a>>,
    pub stall: Duration,
    /// A token, for the host of `url` alone.
    pub bearer: Option<&'a str>,
    /// Whether the Hub's facts are enough, so that no redirect to the content is followed.
    pub facts: bool,
}

/// What is sent.
pub(super) struct Parcel<'a> {
    /// The file that it is of, in messages.
    pub path: &'a Path,
    pub url: &'a str,
    /// Whether the body becomes what is at the address (PUT), or is a question (POST).
    pub put: bool,
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// Bytes of the body.
    pub length: u64,
    pub stall: Duration,
    /// A token for the host of `url`.
    pub bearer: Option<&'a str>,
}

/// What the Hugging Face Hub tells of a file before it redirects to the content.
#[derive(Default)]
pub(super) struct HubFacts {
    pub commit: Option<String>,
    pub tag: Option<String>,
    pub size: Option<u64>,
}

/// The head of an answer, and its body.
pub(super) struct Answer {
    pub status: u16,
    /// `Content-Range`: first byte and total size.
    pub range: Option<(u64, u64)>,
    /// Bytes of this body.
    pub length: Option<u64>,
    /// Whether the body says itself where it ends.
    pub chunked: bool,
    /// An encoding other than the plain bytes.
    pub encoding: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub retry_after: Option<Duration>,
    pub hub: HubFacts,
    pub body: Box<dyn Read>,
}

/// Asks and follows redirects that stay https, or on this machine.
pub(super) fn get(ask: &Ask<'_>) -> Result<Answer> {
    let Ask { path, url, .. } = *ask;
    let refused = |to: &str, from: Option<&Uri>| Error::Insecure {
        path: path.into(),
        url: to.into(),
        from: from.map(|uri| uri.to_string()),
    };
    let protocol = |detail: String| Error::Protocol { path: path.into(), url: url.into(), detail };
    let mut uri = address::allowed(url).ok_or_else(|| refused(url, None))?;
    let first = uri.authority().cloned();
    let bearer = authorization(ask.bearer, path)?;
    let mut hub = HubFacts::default();
    for _ in 0..=MAX_REDIRECTS {
        let bearer = bearer.as_ref().filter(|_| uri.authority() == first.as_ref());
        let response = question(&uri, ask, bearer).map_err(|detail| Error::Network {
            path: path.into(),
            url: uri.to_string(),
            detail,
        })?;
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            hub.note(response.headers(), true);
            return Ok(answer(response, hub));
        }
        hub.note(response.headers(), false);
        if ask.facts && hub.commit.is_some() && hub.tag.is_some() {
            return Ok(answer(response, hub));
        }
        let location = text(response.headers(), header::LOCATION)
            .ok_or_else(|| protocol("a redirect without Location".into()))?;
        if discreet(&location, ask.bearer) != location {
            return Err(protocol("a redirect whose address holds the token".into()));
        }
        let next =
            address::join(&uri, &location).ok_or_else(|| protocol(format!("a redirect to {location}")))?;
        let to = address::allowed(&next).filter(|to| address::may_redirect(&uri, to));
        uri = to.ok_or_else(|| refused(&next, Some(&uri)))?;
    }
    Err(protocol(format!("more than {MAX_REDIRECTS} redirects")))
}

/// Sends `body` and follows no redirect: what is sent goes where it was meant to go, or nowhere.
pub(super) fn send(parcel: &Parcel<'_>, body: &mut dyn Read) -> Result<Answer> {
    /// A server that has all of it may need so many times longer to say so than for another answer.
    const DIGESTION: u32 = 10;
    let Parcel { path, url, stall, .. } = *parcel;
    let named = address::plain(url);
    let insecure = || Error::Insecure { path: path.into(), url: named.into(), from: None };
    let uri = address::allowed(url).ok_or_else(insecure)?;
    let agent = agent(&uri, stall, stall.saturating_mul(DIGESTION));
    let mut request = if parcel.put { agent.put(&uri) } else { agent.post(&uri) };
    request = request.header(header::CONTENT_LENGTH, parcel.length);
    for (name, value) in parcel.headers {
        request = request.header(name, value);
    }
    if let Some(token) = authorization(parcel.bearer, path)? {
        request = request.header(header::AUTHORIZATION, token);
    }
    let response = request.send(SendBody::from_reader(body)).map_err(|error| Error::Network {
        path: path.into(),
        url: named.into(),
        detail: error.to_string(),
    })?;
    if response.status().is_redirection() {
        let to = text(response.headers(), header::LOCATION).unwrap_or_default();
        let to = discreet(&to, parcel.bearer);
        let to = address::shown(address::plain(&to));
        let detail = format!("it is moved to {to}, and what is sent follows no redirect; give the new name");
        return Err(Error::Protocol { path: path.into(), url: named.into(), detail });
    }
    Ok(answer(response, HubFacts::default()))
}

/// A text of a server's as messages show it: without the token, should the server say it.
pub(super) fn discreet(text: &str, token: Option<&str>) -> String {
    match token.filter(|token| !token.is_empty()) {
        Some(token) => text.replace(token, "…"),
        None => text.to_owned(),
    }
}

/// The header that carries a token.
fn authorization(token: Option<&str>, path: &Path) -> Result<Option<HeaderValue>> {
    let header = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
    let header = header.transpose().map_err(|_| Error::Token { path: path.into() })?;
    Ok(header.map(|mut header| {
        header.set_sensitive(true);
        header
    }))
}

impl HubFacts {
    /// Adds what an answer tells; only that of the `last` has the content's own tag and length.
    fn note(&mut self, headers: &HeaderMap, last: bool) {
        let named = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let own = |name: &str| named(name).filter(|_| last);
        self.commit = self.commit.take().or_else(|| named("x-repo-commit"));
        self.tag = self.tag.take().or_else(|| named("x-linked-etag")).or_else(|| own("etag"));
        let size = |text: String| text.trim().parse().ok();
        let told = named("x-linked-size").or_else(|| own("content-length"));
        self.size = self.size.or_else(|| told.and_then(size));
    }
}

fn agent(uri: &Uri, stall: Duration, answer: Duration) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .accept_encoding("identity")
        .user_agent(concat!("ebm/", env!("CARGO_PKG_VERSION")))
        .max_idle_connections(0)
        .timeout_resolve(Some(stall))
        .timeout_connect(Some(stall))
        .timeout_send_request(Some(stall))
        .timeout_recv_response(Some(answer))
        .timeout_per_read(Some(stall))
        .timeout_per_write(Some(stall));
    // A proxy of the environment is for the outside world.
    let local = uri.host().is_some_and(address::is_loopback);
    if local { config.proxy(None) } else { config }.build().new_agent()
}

fn question(
    uri: &Uri,
    ask: &Ask<'_>,
    bearer: Option<&HeaderValue>,
) -> std::result::Result<Response<Body>, String> {
    let mut request = agent(uri, ask.stall, ask.stall).get(uri);
    if let Some(token) = bearer {
        request = request.header(header::AUTHORIZATION, token);
    }
    if let Some(Resume { start, validator }) = &ask.resume {
        request = request.header(header::RANGE, format!("bytes={start}-"));
        if let Some(validator) = validator {
            request = request.header(header::IF_RANGE, *validator);
        }
    }
    request.call().map_err(|error| error.to_string())
}

impl Answer {
    /// The body, which is of at most `limit` bytes.
    pub fn bytes(self, limit: u64) -> std::result::Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        self.body.take(limit + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if self.length.is_some_and(|length| (bytes.len() as u64) < length.min(limit)) {
            return Err(format!("the answer ended at byte {}", bytes.len()));
        }
        if bytes.len() as u64 > limit {
            return Err(format!("the answer has more than {limit} bytes"));
        }
        Ok(bytes)
    }
}

fn answer(response: Response<Body>, hub: HubFacts) -> Answer {
    let status = response.status().as_u16();
    let headers = response.headers();
    let get = |name| text(headers, name);
    Answer {
        status,
        range: get(header::CONTENT_RANGE).as_deref().and_then(content_range),
        length: get(header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok()),
        chunked: get(header::TRANSFER_ENCODING).is_some_and(|coding| coding.contains("chunked")),
        encoding: get(header::CONTENT_ENCODING).filter(|encoding| encoding != "identity"),
        etag: get(header::ETAG),
        last_modified: get(header::LAST_MODIFIED),
        retry_after: get(header::RETRY_AFTER).as_deref().and_then(retry_after),
        hub,
        body: Box::new(response.into_body().into_reader()),
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// First byte and total size of `bytes 5-9/10`.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, total.trim().parse().ok()?))
}

/// Seconds, or a date from now on.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 10)));
        for bad in ["bytes */10", "bytes 5-9/*", "5-9/10", "bytes 5/10", ""] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(retry_after(&later).unwrap() > Duration::from_secs(90));
        assert_eq!(retry_after("soon"), None);
    }
}
