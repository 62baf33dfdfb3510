//! Responses: JSON, a page, a picture, or a refusal.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// A complete response.
pub type Answer = Response<Full<Bytes>>;

/// The part of the policy that only a header can state; a page states the hashes of its scripts and style itself.
const POLICY: &str = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A refusal of a request: an HTTP status and a sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// Problem and remedy.
    pub reason: String,
}

impl Refusal {
    /// Creates a refusal with this status and sentence.
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    /// Creates a refusal of an invalid request.
    pub fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// Returns the refusal as a response.
    pub(super) fn answer(&self) -> Answer {
        let body = serde_json::json!({"error": self.reason}).to_string();
        bytes(self.status, "application/json", body.into())
    }
}

/// Returns a value as JSON.
///
/// # Errors
/// [`Refusal`] if the value cannot be written as JSON.
pub fn json(value: &impl Serialize) -> Result<Answer, Refusal> {
    let failed =
        |error: serde_json::Error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    Ok(bytes(StatusCode::OK, "application/json", serde_json::to_vec(value).map_err(failed)?.into()))
}

/// Returns a page of HTML, which states its own policy.
pub fn html(text: String) -> Answer {
    bytes(StatusCode::OK, "text/html; charset=utf-8", text.into())
}

/// Returns a body with the headers of every response.
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
