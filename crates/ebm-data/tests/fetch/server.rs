//! An HTTP server on loopback that a test scripts.
#![allow(dead_code, reason = "two test programs use it, each a part")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What a client asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// How many requests came before.
    pub number: usize,
    pub path: String,
    /// First byte of the range.
    pub range: Option<usize>,
    pub authorization: Option<String>,
}

/// What has come in and gone out so far.
#[derive(Default)]
pub struct Log {
    pub requests: Mutex<Vec<Request>>,
    count: AtomicUsize,
    sent: AtomicU64,
}

/// Stops listening with the process: a test ends before.
pub struct Server {
    pub address: String,
    pub log: Arc<Log>,
}

impl Server {
    /// Answers every request with `script`, each in its own thread.
    pub fn start(script: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Log::default());
        let (script, shared) = (Arc::new(script), log.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), script, log) = (stream, script.clone(), shared.clone()) else { return };
                std::thread::spawn(move || {
                    let Some(request) = read(&stream, &log) else { return };
                    log.requests.lock().unwrap().push(request.clone());
                    let mut reply = Reply { stream, log };
                    script(&request, &mut reply);
                    let _ = reply.stream.shutdown(Shutdown::Write);
                });
            }
        });
        Self { address, log }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.requests.lock().unwrap().clone()
    }

    /// Bytes of bodies sent.
    pub fn sent(&self) -> u64 {
        self.log.sent.load(Ordering::SeqCst)
    }
}

fn read(stream: &TcpStream, log: &Log) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let line = |reader: &mut BufReader<&TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line(&mut reader)?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut request = Request {
        number: log.count.fetch_add(1, Ordering::SeqCst),
        path: words.nth(1)?,
        range: None,
        authorization: None,
    };
    loop {
        let line = line(&mut reader)?;
        let Some((name, value)) = line.split_once(": ") else {
            return line.is_empty().then_some(request);
        };
        match name.to_ascii_lowercase().as_str() {
            "range" => request.range = value.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok(),
            "authorization" => request.authorization = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// The answer, written by hand. A client that has gone away is no failure of the server.
pub struct Reply {
    stream: TcpStream,
    log: Arc<Log>,
}

impl Reply {
    /// Status line and headers, such as `200 OK` and `ETag: "a"`.
    pub fn head(&mut self, status: &str, headers: &[&str]) {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let _ = write!(self.stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n");
    }

    /// Bytes of the body; whether they went out.
    pub fn body(&mut self, bytes: &[u8]) -> bool {
        for chunk in bytes.chunks(1 << 14) {
            if self.stream.write_all(chunk).is_err() {
                return false;
            }
            self.log.sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        }
        true
    }

    /// The head that a good server sends for `content`, and the bytes that it would send.
    pub fn good_head<'a>(&mut self, request: &Request, content: &'a [u8]) -> &'a [u8] {
        let (len, start) = (content.len(), request.range.unwrap_or(0));
        let length = format!("Content-Length: {}", len.saturating_sub(start));
        match start {
            0 => self.head("200 OK", &[&length]),
            start if start < len => {
                let range = format!("Content-Range: bytes {start}-{}/{len}", len - 1);
                self.head("206 Partial Content", &[&range, &length]);
            }
            _ => self.head("416 Range Not Satisfiable", &["Content-Length: 0"]),
        }
        &content[start.min(len)..]
    }

    /// What a good server answers.
    pub fn good(&mut self, request: &Request, content: &[u8]) {
        let body = self.good_head(request, content);
        self.body(body);
    }
}
