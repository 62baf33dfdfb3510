//! A server to test, and a client that sends what it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::program::{command, succeeds, text};

/// A photograph with a person, another class, and a small person.
pub fn photograph() -> PathBuf {
    ebm_testing::fixture("coco/val2017/000000343937.jpg")
}

/// The lines of `ebm predict detection` on the photograph.
pub fn predicted() -> Vec<Value> {
    let [lines, _] = succeeds(&["predict", "detection", text(&photograph())]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// `ebm demo` on a free port.
pub struct Demo {
    child: Option<Child>,
    /// `http://127.0.0.1:PORT/TOKEN/`.
    pub address: String,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{:?}", String::from_utf8_lossy(&self.body)))
    }
}

impl Demo {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// With further arguments.
    pub fn with(args: &[&str]) -> Self {
        let mut command = command(&[&["demo"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        // The child keeps its end of the pipe; what it prints later is looked at when it ends.
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim_end().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address:?}");
        Self { child: Some(child), address }
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn port(&self) -> u16 {
        self.host().rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> &str {
        self.address.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    /// `/TOKEN/`.
    pub fn root(&self) -> &str {
        &self.address["http://".len() + self.host().len()..]
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends these bytes and reads until the server ends the connection.
    pub fn sends(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses may not read all of it.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        answer(&mut stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        let (root, host) = (self.root(), self.host());
        self.sends(&format!("GET {root}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), b"")
    }

    /// The head of a POST of the page itself.
    pub fn post_head(&self, path: &str, length: usize) -> String {
        let (root, host) = (self.root(), self.host());
        format!(
            "POST {root}{path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.sends(&self.post_head(path, body.len()), body)
    }

    #[track_caller]
    pub fn asks(&self, path: &str, asked: &Value, status: u16) -> Value {
        let answer = self.post(path, asked.to_string().as_bytes());
        let found = answer.json();
        assert_eq!(answer.status, status, "{asked}: {found}");
        found
    }

    pub fn look(&self, name: &str, bytes: &[u8]) -> Value {
        let answer = self.post(&format!("boxes/look?name={name}"), bytes);
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    }

    /// The most memory that the server has had, in MiB.
    #[cfg(target_os = "linux")]
    pub fn peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Sends the signal of Ctrl-C and waits for the end.
    pub fn interrupt(&mut self) -> Output {
        assert!(ebm_testing::signal(self.id(), "INT"));
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads an answer to the connection's end.
pub fn answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // What was not read of a request may reset the connection behind the answer.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}
