//! Which addresses are talked to.

use std::borrow::Cow;
use std::net::IpAddr;

use ureq::http::Uri;

/// The address if it may be talked to: https, or http on this machine.
pub(super) fn allowed(url: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host().filter(|host| !host.is_empty())?;
    match uri.scheme_str()? {
        "https" => Some(uri),
        "http" if is_loopback(host) => Some(uri),
        _ => None,
    }
}

/// Whether the host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An address, or the name of a file, as messages show it: without a user's name and password.
pub(super) fn shown(address: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = address.split_once("://") else { return address.into() };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]).into(),
        None => address.into(),
    }
}

/// An address without what may be secret in it: those that the Hub gives out for a large file are signed.
pub(super) fn plain(address: &str) -> &str {
    address.split(['?', '#']).next().unwrap_or_default()
}

/// Where a `Location` leads from `base`: an absolute address, one without a scheme, or a path.
pub(super) fn join(base: &Uri, location: &str) -> Option<String> {
    let scheme = base.scheme_str()?;
    let authority = base.authority()?;
    if location.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
    {
        return Some(location.to_owned());
    }
    if location.starts_with("//") {
        return Some(format!("{scheme}:{location}"));
    }
    if location.starts_with('/') {
        return Some(format!("{scheme}://{authority}{location}"));
    }
    let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{scheme}://{authority}{folder}/{location}"))
}

/// Whether a redirect keeps what the first address promised: https stays https.
pub(super) fn may_redirect(from: &Uri, to: &Uri) -> bool {
    from.scheme_str() != Some("https") || to.scheme_str() == Some("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine() {
        for good in [
            "https://a.org/x",
            "http://127.0.0.1:80/x",
            "http://127.8.0.1/x",
            "http://localhost/",
            "http://[::1]:9/x",
        ] {
            assert!(allowed(good).is_some(), "{good}");
        }
        for bad in [
            "http://a.org/x",
            "http://127.0.0.1.a.org/x",
            "http://localhost.a.org/",
            "http://localhost@a.org/",
            "http://10.0.0.1/",
            "ftp://a.org/x",
            "file:///etc/passwd",
            "/x",
            "",
        ] {
            assert!(allowed(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn nobody_is_told_a_password() {
        assert_eq!(shown("https://me:secret@a.org/x?y=z"), "https://…@a.org/x?y=z");
        assert_eq!(shown("https://me:sec@ret@a.org"), "https://…@a.org");
        for plain in ["https://a.org/x@y", "https://a.org?x@y", "the file", ""] {
            assert_eq!(shown(plain), plain);
        }
    }

    #[test]
    fn a_location_is_resolved() {
        let base: Uri = "http://127.0.0.1:8/a/b?q".parse().unwrap();
        let cases = [
            ("https://b.org/c", "https://b.org/c"),
            ("//b.org/c", "http://b.org/c"),
            ("/c?x=http://d", "http://127.0.0.1:8/c?x=http://d"),
            ("c", "http://127.0.0.1:8/a/c"),
        ];
        for (location, expected) in cases {
            assert_eq!(join(&base, location).unwrap(), expected);
        }
    }

    #[test]
    fn https_stays_https() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert!(may_redirect(&uri("https://a"), &uri("https://b")));
        assert!(may_redirect(&uri("http://127.0.0.1"), &uri("http://127.0.0.1:1")));
        assert!(!may_redirect(&uri("https://a"), &uri("http://127.0.0.1")));
    }
}
