//! `ebm train --watch` and `--tensorboard`: the report and the curves of a running training.

use crate::chromium;
use crate::common::program::said;
use crate::common::training::Case;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use chromium::Page;
use serde_json::json;

/// A training that goes on until it is told to stop, and the address of its report.
struct Watched {
    child: Child,
    address: String,
}

impl Watched {
    fn start(case: &Case) -> Self {
        let mut command = case.train("run", false);
        command.args(["--watch", "--tensorboard"]).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|line| line.unwrap().strip_prefix("the report while it trains: ").map(str::to_owned));
        // It says more; where nobody reads, it would stand still.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.unwrap() }
    }

    /// `127.0.0.1:PORT`.
    fn host(&self) -> &str {
        self.address.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    /// The status of an answer and all of it.
    fn asks(&self, line: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request =
            format!("{line} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\n{headers}\r\n", self.host());
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    fn stop(mut self) {
        assert!(ebm_testing::signal(self.child.id(), "INT"));
        assert!(!self.child.wait().unwrap().success());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_report_is_served_while_it_trains_and_tensorboard_has_its_curves() {
    let case = Case::new(100_000, 20);
    let watched = Watched::start(&case);
    let root = watched.address["http://".len() + watched.host().len()..].to_owned();
    let start = Instant::now();
    let page = loop {
        let (status, page) = watched.asks(&format!("GET {root}"), "");
        assert_eq!(status, 200, "{page}");
        if page.contains("id=\"curves\"") {
            break page;
        }
        assert!(page.contains("has not written anything yet") || page.contains("data-reload"), "{page}");
        assert!(start.elapsed() < Duration::from_secs(120), "{page}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(page.contains("data-reload=\"5\"") && page.contains("connect-src 'self'"));
    // Whoever is not answered by the demonstration is not answered here.
    let wrong = "0".repeat(root.len() - 2);
    let status = |line: &str, headers: &str| watched.asks(line, headers).0;
    assert_eq!(status(&format!("GET /{wrong}/"), ""), 403);
    assert_eq!(status(&format!("GET {root}"), "Origin: http://evil.example\r\n"), 403);
    assert_eq!(status(&format!("GET {root}config.toml"), ""), 404);
    assert_eq!(status(&format!("GET {root}../run/config.toml"), ""), 404);
    let own = format!("Origin: http://{}\r\nContent-Length: 0\r\n", watched.host());
    assert_eq!(status(&format!("POST {root}"), &own), 404);
    assert_eq!(status(&format!("GET {root}alive"), ""), 200);

    if let Some(mut browser) = Page::open(&watched.address, [1280, 900]) {
        browser.waits("document.documentElement.dataset.ready === 'true'");
        assert_eq!(browser.value("document.documentElement.dataset.errors ?? ''"), json!(""));
        let steps = "Number(document.querySelector('#curves table td[data-value]').dataset.value)";
        let before = browser.value(steps).as_f64().unwrap();
        browser.shot("watch");
        // The page loads itself anew, and the training has gone on.
        browser.waits(&format!("document.readyState === 'complete' && {steps} > {before}"));
        assert_eq!(browser.errors, Vec::<String>::new());
        watched.stop();
        browser.waits("document.querySelector('[data-reload]').textContent.includes('has stopped')");
        assert!(browser.value(steps).as_f64().unwrap() > before);
    } else {
        let steps = || std::fs::read_to_string(case.path("run/metrics.jsonl")).unwrap().lines().count();
        let start = Instant::now();
        while steps() <= 20 && start.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(50));
        }
        watched.stop();
    }

    let metrics = std::fs::read_to_string(case.path("run/metrics.jsonl")).unwrap();
    let events = std::fs::read(case.path("run/tensorboard/events.out.tfevents.0.ebm")).unwrap();
    let named = |name: &[u8]| events.windows(name.len()).filter(|part| *part == name).count();
    assert!(metrics.lines().count() > 20, "{metrics}");
    assert_eq!(named(b"\x0a\x04loss"), metrics.lines().count());
}

#[test]
fn the_port_of_another_is_named_before_anything_is_computed() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let case = Case::new(5, 5);
    let output = case.train("run", false).arg(format!("--watch={port}")).output().unwrap();
    let said = said(&output);
    assert!(
        said.contains(&format!("cannot listen at 127.0.0.1:{port}")) && !output.status.success(),
        "{said}"
    );
    assert!(!case.path("run").exists());
}
