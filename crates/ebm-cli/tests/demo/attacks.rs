//! Answers to hostile clients, each with its status.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::server::{Demo, photograph};

#[test]
fn only_the_page_itself_is_answered() {
    let demo = Demo::start();
    let (host, root) = (demo.host().to_owned(), demo.root().to_owned());
    let asks = |line: &str, headers: &str| {
        demo.sends(&format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"), b"").status
    };
    let own = format!("Host: {host}\r\n");
    let get = format!("GET {root}");
    let post = format!("POST {root}toy/model");
    let page = demo.get("");
    assert_eq!(page.status, 200);
    let head = page.head.to_lowercase();
    for header in [
        "content-security-policy: base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
    assert!(!head.contains("access-control-allow"), "{head}");
    let text = String::from_utf8(page.body).unwrap();
    assert!(text.contains("\"default-src 'none'; script-src 'sha256-"), "{text:.1000}");

    // A foreign name that means this machine (DNS rebinding).
    let port = demo.port();
    for name in [
        format!("evil.example:{port}"),
        format!("localhost:{port}"),
        "127.0.0.1".into(),
        "127.0.0.1:1".into(),
    ] {
        assert_eq!(asks(&get, &format!("Host: {name}\r\n")), 421, "{name}");
    }
    assert_eq!(asks(&format!("GET http://evil.example{root}"), &own), 421);
    assert_eq!(asks(&get, ""), 421);
    assert_eq!(asks(&get, &format!("{own}Host: evil.example\r\n")), 400);
    // Another origin.
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"] {
        assert_eq!(asks(&get, &format!("{own}Origin: {origin}\r\n")), 403, "{origin}");
        assert_eq!(asks(&post, &format!("{own}Origin: {origin}\r\n")), 403, "{origin}");
    }
    assert_eq!(asks(&get, &format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n")), 403);
    assert_eq!(asks(&post, &own), 403);
    // No token, or another; a path that leads elsewhere.
    let wrong = "0".repeat(root.len() - 2);
    for path in [
        "/",
        "/favicon.ico",
        "/photograph.jpg",
        &format!("/{wrong}/"),
        &root[..root.len() - 2],
        "/../../etc/passwd",
        "//",
    ] {
        assert_eq!(asks(&format!("GET {path}"), &own), 403, "{path}");
    }
    for path in [
        "../../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "photograph.jpg/",
        "toy/model",
    ] {
        assert_eq!(asks(&format!("GET {root}{path}"), &own), 404, "{path}");
    }
    assert_eq!(
        asks(&format!("POST {root}toy/../toy/model"), &format!("{own}Origin: http://{host}\r\n")),
        404
    );
    for method in ["OPTIONS", "PUT", "DELETE", "TRACE"] {
        assert_eq!(asks(&format!("{method} {root}"), &own), 405, "{method}");
    }
    assert_eq!(asks("no HTTP at all", ""), 400);
    let long = format!("{own}X-Long: {}\r\n", "a".repeat(100_000));
    assert_eq!(asks(&get, &long), 431);
}

#[test]
fn uploads_are_bounded_and_decoded_strictly() {
    let demo = Demo::start();
    let photo = std::fs::read(photograph()).unwrap();
    demo.look("photo.jpg", &photo);
    let before = demo.peak_mib();
    let look = |bytes: &[u8]| {
        let answer = demo.post("boxes/look?name=a.png", bytes);
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let (status, said) = look(&png_of_10_000());
    assert!(status == 413 && said.contains("10000"), "{status} {said}");
    for part in [2, 100, photo.len() / 2, photo.len() - 3] {
        assert_eq!(look(&photo[..part]).0, 422, "{part} bytes");
    }
    assert_eq!(look(b"").0, 422);
    assert_eq!(look(b"GIF89a................").0, 422);
    assert_eq!(look(b"<html><script>alert(1)</script>").0, 422);
    assert_eq!(look(&vec![0; (16 << 20) + 1]).0, 413);
    // Said to be longer than it is, and said to be without end.
    let mut stream = demo.connect();
    stream.write_all(demo.post_head("boxes/look", 1 << 40).as_bytes()).unwrap();
    let chunk = vec![0; 1 << 20];
    for _ in 0..24 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    assert_eq!(super::server::answer(&mut stream).status, 413);
    // A name with HTML comes back in JSON alone.
    let answer = demo.post("boxes/look?name=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E.png", b"no image");
    assert_eq!(answer.status, 422);
    assert!(answer.head.to_lowercase().contains("content-type: application/json"), "{}", answer.head);
    assert!(answer.json()["error"].as_str().unwrap().contains("<img src=x onerror=alert(1)>.png"));
    for body in ["", "{", "[]", "null", "{\"image\":-1}", &"[".repeat(100_000)] {
        assert_eq!(demo.post("boxes/climb", body.as_bytes()).status, 400, "{:.20}", body);
    }
    let grown = demo.peak_mib() - before;
    assert!(grown < 256, "{grown} MiB more than one photograph takes");
    demo.look("photo.jpg", &photo);
}

/// A PNG whose header claims 10 000 pixels a side.
fn png_of_10_000() -> Vec<u8> {
    let side = 10_000_u32.to_be_bytes();
    let checksum = 0x352c_f570_u32.to_be_bytes();
    [
        &b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..],
        &side[..],
        &side,
        &[8, 2, 0, 0, 0],
        &checksum,
        b"\0\0\0\x34IDAT",
        &[0; 56],
        b"\0\0\0\0IEND\xaeB\x60\x82",
    ]
    .concat()
}

#[test]
fn slow_clients_are_ended_and_others_are_served() {
    let demo = Demo::start();
    // One that knows the token, and does not send the body.
    let mut idle = demo.connect();
    idle.write_all(demo.post_head("boxes/look", 1000).as_bytes()).unwrap();
    // More than there may be at once: half a head each.
    let mut slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = demo.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    assert_eq!(demo.get("").status, 200);
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest);
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    assert_eq!(super::server::answer(&mut idle).status, 408);
}
