//! Chromium without a window, driven by the DevTools protocol.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebm_testing::browser::chromium;
use serde_json::{Value, json};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

/// Longer than any wait of a test on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Now and then a browser ends at its start, before it can be asked for anything.
const STARTS: usize = 3;

/// A browser that listens.
struct Browser {
    child: Child,
    /// Address of the browser's debugger.
    listening: String,
    profile: tempfile::TempDir,
}

impl Browser {
    /// None where it ended; what it `said` is added.
    fn start(program: &Path, size: [u32; 2], said: &mut String) -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-port=0",
            "about:blank",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("--window-size={},{}", size[0], size[1]));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = lines.find_map(|line| {
            let line = line.unwrap();
            said.push_str(&line);
            said.push('\n');
            line.strip_prefix("DevTools listening on ").map(str::to_owned)
        });
        let Some(listening) = listening else {
            said.push_str(&format!("it ended with {}\n", child.wait().unwrap()));
            return None;
        };
        // It says much more; where nobody reads, it would stand still.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, listening, profile })
    }
}

/// A page in a browser of its own.
pub struct Page {
    child: Child,
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: String,
    next: u64,
    /// Errors in the page's console and the browser's log.
    pub errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Page {
    /// A window of this size; none without a browser.
    pub fn open(address: &str, size: [u32; 2]) -> Option<Self> {
        let program = chromium()?;
        let mut said = String::new();
        let browser = (0..STARTS).find_map(|_| Browser::start(&program, size, &mut said));
        let Browser { child, listening, profile } = browser.unwrap_or_else(|| panic!("no browser: {said}"));
        let (socket, _) = tungstenite::connect(listening).unwrap();
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
        }
        let session = String::new();
        let mut page = Self { child, socket, session, next: 0, errors: vec![], _profile: profile };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = page.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        page.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "DOM"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        let metrics = json!({"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": false});
        page.call("Emulation.setDeviceMetricsOverride", metrics);
        page.call("Page.navigate", json!({"url": address}));
        page.waits("document.readyState === 'complete'");
        Some(page)
    }

    /// The result of a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            self.note(&answer);
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error" || params["type"] == "warning",
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(params.to_string());
        }
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn waits(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != json!(true) {
            let status = "document.querySelector('main:not([hidden]) .status')?.textContent";
            assert!(start.elapsed() < LIMIT, "{expression}: {:?}, {:?}", self.value(status), self.errors);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sets a file on the file input that a selector finds.
    pub fn choose(&mut self, selector: &str, file: &Path) {
        let root = self.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
        let found = self.call("DOM.querySelector", json!({"nodeId": root, "selector": selector}));
        let file = file.canonicalize().unwrap();
        self.call("DOM.setFileInputFiles", json!({"files": [file], "nodeId": found["nodeId"]}));
    }

    /// Presses the left button, moves in steps, and lets go.
    pub fn drags(&mut self, from: [f64; 2], to: [f64; 2]) {
        let mut mouse = |kind: &str, at: [f64; 2], buttons: u8| {
            let params = json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        };
        mouse("mouseMoved", from, 0);
        mouse("mousePressed", from, 1);
        for part in 1..=5 {
            let share = f64::from(part) / 5.0;
            mouse("mouseMoved", [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis])), 1);
        }
        mouse("mouseReleased", to, 0);
    }

    /// Presses the left button and lets it go.
    pub fn clicks(&mut self, at: [f64; 2]) {
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let params = json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Leaves pictures of the window in the light and the dark theme, NAME_light.png and NAME_dark.png, in the folder that
    /// EBM_SCREENSHOTS names; nothing where it names none.
    pub fn shot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("EBM_SCREENSHOTS") else { return };
        for theme in ["light", "dark"] {
            let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
            self.call("Emulation.setEmulatedMedia", features);
            let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
            let bytes = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
            std::fs::write(Path::new(&folder).join(format!("{name}_{theme}.png")), bytes).unwrap();
        }
        self.call("Emulation.setEmulatedMedia", json!({"features": []}));
    }

    /// Moves the pointer.
    pub fn points(&mut self, at: [f64; 2]) {
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": at[0], "y": at[1]}));
    }

    /// Presses a key by its name and code.
    pub fn presses(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if key == "Enter" && kind == "keyDown" {
                params["text"] = json!("\r");
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
