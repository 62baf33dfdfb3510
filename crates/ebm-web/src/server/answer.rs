//! What goes back: JSON, a page, a picture, or why not.

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

/// A page names its scripts and its style by hash itself; this is what only a header can say.
const POLICY: &str = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An HTTP status and a sentence for the user that say why a request is not served.
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
    pub(super) fn answer(&self) -> Answer {
        let body = serde_json::json!({"error": self.reason}).to_string();
        bytes(self.status, "application/json", body.into())
    }
}

/// A value as JSON.
///
/// # Errors
/// [`Refusal`] where the value has no form in JSON.
pub fn json(value: &impl Serialize) -> Result<Answer, Refusal> {
    let failed =
        |error: serde_json::Error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    Ok(bytes(StatusCode::OK, "application/json", serde_json::to_vec(value).map_err(failed)?.into()))
}

/// A page of HTML that states its own policy.
pub fn html(text: String) -> Answer {
    bytes(StatusCode::OK, "text/html; charset=utf-8", text.into())
}

/// A body with the headers that every response has.
pub(crate) fn bytes(status: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
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
