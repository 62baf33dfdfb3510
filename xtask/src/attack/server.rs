//! A server on this machine that answers as servers do that are broken or hostile.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::case::{Case, Fault};
use super::program::write;

/// SHA-256 of [`content`].
const SHA256: &str = "b485d6dadd32a96137eef4a48e1f8f14a46369b78c3999ed15cf5dfbe1bb212b";
/// Bytes of the file.
const SIZE: usize = 50_000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|i| (i * i / 7) as u8).collect()
}

/// How often it answers badly before it answers well; a client that comes again gets the file then.
#[derive(Clone, Copy)]
struct Manner {
    head: &'static str,
    /// How much of the content follows, in hundredths.
    percent: usize,
    /// Whether it is so for ever.
    always: bool,
}

const fn manner(head: &'static str, percent: usize, always: bool) -> Manner {
    Manner { head, percent, always }
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n";

const MANNERS: [Manner; 21] = [
    manner(GOOD, 100, true),
    manner(GOOD, 50, false),
    manner(GOOD, 0, false),
    manner(GOOD, 130, true),
    manner("HTTP/1.1 200 OK\r\nContent-Length: 49999\r\n", 100, true),
    manner("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", 100, true),
    manner("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n", 100, true),
    manner("HTTP/1.1 200 OK\r\n", 100, true),
    manner("HTTP/1.1 200 OK\r\n", 90, true),
    manner("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", 100, true),
    manner("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 50000\r\n", 100, true),
    manner(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 7-50006/50000\r\nContent-Length: 50000\r\n",
        100,
        true,
    ),
    manner("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n", 0, true),
    manner("HTTP/1.1 302 Found\r\nLocation: http://example.org/x\r\nContent-Length: 0\r\n", 0, true),
    manner("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n", 0, true),
    manner("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n", 0, true),
    manner("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n", 0, false),
    manner("HTTP/1.1 429 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n", 0, false),
    manner("HTTP/1.1 503 Later\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n", 0, true),
    manner("SSH-2.0-OpenSSH\r\n", 0, false),
    manner("", 0, false),
];

/// Answers until it is dropped.
struct Server {
    address: String,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(manner: Manner, flipped: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port on this machine")?;
        listener.set_nonblocking(true).context("a port that does not wait")?;
        let address = listener.local_addr().context("the port")?.to_string();
        let done = Arc::new(AtomicBool::new(false));
        let (stop, asked) = (done.clone(), AtomicUsize::new(0));
        let thread = spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => answer(stream, manner, asked.fetch_add(1, Ordering::Relaxed), flipped),
                    Err(_) => sleep(Duration::from_millis(2)),
                }
            }
        });
        Ok(Self { address, done, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One answer; what the client makes of it is the case.
fn answer(mut stream: TcpStream, manner: Manner, asked: usize, flipped: bool) {
    let _ =
        stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(2))));
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let manner = if manner.always || asked == 0 { manner } else { MANNERS[0] };
    let mut body = content();
    body[SIZE / 2] ^= u8::from(flipped);
    let length = SIZE * manner.percent / 100;
    body.resize(length.max(SIZE), b'x');
    let head = if manner.head.is_empty() {
        String::new()
    } else {
        format!("{}Connection: close\r\n\r\n", manner.head)
    };
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..length]));
}

/// A download: the right bytes under the file's name, or nothing.
pub fn server(case: &mut Case<'_>) -> Result<()> {
    let manner = MANNERS[case.number % MANNERS.len()];
    let flipped = case.number / MANNERS.len() == 1;
    let server = Server::new(manner, flipped)?;
    let manifest = format!(
        "name = \"set\"\ntitle = \"Set\"\npage = \"p\"\nlicence = \"free\"\ncitation = \"c\"\n[[file]]\npath = \"set/x.bin\"\n\
         urls = [\"http://{}/x\"]\nsize = {SIZE}\nsha256 = \"{SHA256}\"\n",
        server.address
    );
    write(&case.path("datasets/set.toml"), manifest.as_bytes())?;
    let mut program = case.ebm("data get set --datasets datasets --weights weights", &[]);
    program.variables = ["HF_TOKEN", "HTTP_PROXY", "http_proxy"].map(|name| (name, None)).into();
    program.patience *= 2;
    let outcome = case.run(&program, &[0, 1, 3])?;
    let (path, good) =
        (case.path("datasets/set/x.bin"), manner.head == GOOD && manner.percent == 100 && !flipped);
    if outcome.code == Some(0) {
        case.must_hold(&path, &content());
    } else if path.exists() || good {
        case.note(
            Fault::Lost,
            format!("a file of wrong bytes, or none where the server is good: {}", outcome.said),
        );
    }
    Ok(())
}
