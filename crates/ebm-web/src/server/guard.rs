//! Access control: only requests with the token, from the page itself, are answered.

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode, Uri};

use super::answer::Refusal;

/// Guard of the server: the page's address with its token.
pub struct Guard {
    /// `127.0.0.1:PORT`.
    authority: String,
    /// Token of 32 hexadecimal digits.
    token: String,
}

impl Guard {
    /// Creates the guard of a server at this port, with 16 random bytes.
    pub fn new(port: u16, secret: [u8; 16]) -> Self {
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { authority: format!("127.0.0.1:{port}"), token }
    }

    /// Returns the page's address.
    pub fn address(&self) -> String {
        format!("http://{}/{}/", self.authority, self.token)
    }

    /// Checks a request, and returns its path after the token, without the slash, and its query.
    ///
    /// It refuses three kinds of foreign pages. A page whose host name an attacker points to 127.0.0.1 (DNS rebinding) sends
    /// its own host name. A page of another origin sends that origin, or states another site. No foreign page has the token.
    ///
    /// # Errors
    /// A [`Refusal`] that does not reveal the token.
    pub fn admit<'a>(
        &self,
        method: &Method,
        uri: &'a Uri,
        headers: &HeaderMap,
    ) -> Result<[&'a str; 2], Refusal> {
        let forbidden = |reason: &str| Refusal::new(StatusCode::FORBIDDEN, reason);
        if only(headers, &HOST)?.is_none_or(|host| host != self.authority) || uri.authority().is_some() {
            return Err(Refusal::new(
                StatusCode::MISDIRECTED_REQUEST,
                "this server answers at the address that it printed, and under no other name",
            ));
        }
        if *method != Method::GET && *method != Method::POST {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and POST requests are answered",
            ));
        }
        let own = format!("http://{}", self.authority);
        let is_own = match only(headers, &ORIGIN)? {
            Some(origin) => origin == own,
            // Browsers send the origin with every POST.
            None => *method == Method::GET,
        };
        // A link to the page may be followed from anywhere, because it contains the token.
        let said = |name: &'static str| only(headers, &HeaderName::from_static(name));
        let is_followed = said("sec-fetch-mode")? == Some("navigate") && *method == Method::GET;
        let site = said("sec-fetch-site")?;
        if !is_own || site.is_some_and(|site| !is_followed && site != "same-origin" && site != "none") {
            return Err(forbidden("only the page itself may ask this server"));
        }
        let rest = uri.path().strip_prefix('/').unwrap_or_default();
        let (token, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_same(token.as_bytes(), self.token.as_bytes()) {
            return Err(forbidden("the address has another token; open the one that `ebm demo` printed"));
        }
        Ok([path, uri.query().unwrap_or_default()])
    }
}

/// Returns the only value of a header; none without the header.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str());
    match (first, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(Refusal::bad(format!("the header {name} is not one text"))),
    }
}

/// Compares two texts in a time that does not depend on the position of the first difference.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const PATH: &str = "/000102030405060708090a0b0c0d0e0f/api/climb?a=b";

    fn status(method: Method, path: &'static str, headers: &[(&'static str, &'static str)]) -> u16 {
        let guard = Guard::new(8000, std::array::from_fn(|place| place as u8));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let uri = Uri::from_static(path);
        guard.admit(&method, &uri, &map).map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    #[test]
    fn the_page_itself_is_answered_and_nobody_else() {
        let (host, own) = (("host", "127.0.0.1:8000"), ("origin", "http://127.0.0.1:8000"));
        let (get, post) = (Method::GET, Method::POST);
        assert_eq!(status(get.clone(), PATH, &[host]), 200);
        assert_eq!(status(post.clone(), PATH, &[host, own]), 200);
        assert_eq!(status(post.clone(), PATH, &[host]), 403);
        assert_eq!(status(post.clone(), PATH, &[host, ("origin", "null")]), 403);
        assert_eq!(status(post, PATH, &[host, own, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(status(get.clone(), PATH, &[host, ("origin", "http://127.0.0.1:8001")]), 403);
        assert_eq!(status(get.clone(), PATH, &[host, ("sec-fetch-site", "cross-site")]), 403);
        let followed = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(status(get.clone(), PATH, &followed), 200);
        for foreign in ["127.0.0.1", "127.0.0.1:8001", "localhost:8000", "evil.example:8000", ""] {
            assert_eq!(status(get.clone(), PATH, &[("host", foreign)]), 421, "{foreign}");
        }
        assert_eq!(status(get.clone(), PATH, &[]), 421);
        assert_eq!(status(get.clone(), PATH, &[host, ("host", "evil.example")]), 400);
        for path in ["/", "/0001", "/000102030405060708090a0b0c0d0e0e/", "/../etc/passwd"] {
            assert_eq!(status(get.clone(), path, &[host]), 403, "{path}");
        }
        assert_eq!(status(Method::OPTIONS, PATH, &[host]), 405);
    }
}
