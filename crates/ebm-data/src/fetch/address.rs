//! Which addresses are talked to.

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
