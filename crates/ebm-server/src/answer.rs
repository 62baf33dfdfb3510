//! What goes back: JSON, a file of the page, or why not.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// A whole response.
pub type Answer = Response<Full<Bytes>>;

/// Only what this server sends runs, and nothing inline; images are the user's own file as a blob.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Of a document that names its own scripts and style by hash, which is what runs; nothing else may.
const OWN_POLICY: &str = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Why a request is not served: an HTTP status and a sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl Refusal {
    /// With this status and sentence.
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    /// A request that says something impossible.
    pub fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// The response.
    pub fn answer(&self) -> Answer {
        #[derive(Serialize)]
        struct Body<'a> {
            error: &'a str,
        }
        json(self.status, &Body { error: &self.reason })
    }
}

/// A value as JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => bytes(status, "application/json", body.into()),
        Err(error) => bytes(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string().into()),
    }
}

/// A page of HTML that states its own policy, as those of ebm-page do.
pub fn document(text: String) -> Answer {
    let mut answer = bytes(StatusCode::OK, "text/html; charset=utf-8", text.into());
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(OWN_POLICY));
    answer
}

/// A body with the headers that every response has.
pub fn bytes(status: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}
