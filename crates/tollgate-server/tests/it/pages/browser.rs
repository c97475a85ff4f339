//! A real browser: Chromium behind its driver, spoken to by the WebDriver protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::http::request;
use tollgate_testkit::program::{Program, free_port};
use tollgate_testkit::wait;

/// The program that drives the browser; `scripts/setup chromium` installs it.
const DRIVER: &str = "chromedriver";
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one page. Its session ends with the driver, when it is dropped.
pub(crate) struct Browser {
    session: String,
    host: String,
    _profile: tempfile::TempDir,
    _driver: Program,
}

/// The longest wait for the browser's end.
const END_MAX: Duration = Duration::from_secs(20);

/// Ends the browser: it would outlive a driver that is killed.
impl Drop for Browser {
    fn drop(&mut self) {
        let Ok(mut stream) = TcpStream::connect(&self.host) else { return };
        let request = format!(
            "DELETE {} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
            self.session, self.host
        );
        let _ = stream.set_read_timeout(Some(END_MAX));
        let _ = stream.write_all(request.as_bytes());
        // It is answered once the browser has ended.
        let _ = stream.read(&mut [0; 1_024]);
    }
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let (port, profile) = (free_port(), tempfile::tempdir().unwrap());
        let mut command = Command::new(DRIVER);
        command.arg(format!("--port={port}"));
        let driver = Program::start(&mut command);
        let host = format!("127.0.0.1:{port}");
        wait::until("the driver of the browser", || async {
            let status = request(&host, "GET", "/status", "").await.ok()?;
            let status: Value = serde_json::from_str(&status.body).ok()?;
            (status["value"]["ready"] == true).then_some(())
        })
        .await;
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        }}});
        let mut browser = Self { session: String::new(), host, _profile: profile, _driver: driver };
        let made = browser.call("POST", "/session", &wanted).await;
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        browser
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let path = format!("{}{path}", self.session);
        let answer = request(&self.host, method, &path, &body).await.unwrap();
        let value: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer.status, 200, "{path}: {value}");
        value["value"].clone()
    }

    pub(crate) async fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url })).await;
    }

    /// Makes the page as wide as a phone, a tablet or a screen.
    pub(crate) async fn resize(&self, width: u32) {
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics });
        self.call("POST", "/goog/cdp/execute", &command).await;
    }

    /// Presses and releases a key of the keyboard, by its code in the WebDriver protocol.
    pub(crate) async fn press(&self, key: &str) {
        let keys = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let source = json!({ "type": "key", "id": "keyboard", "actions": keys });
        self.call("POST", "/actions", &json!({ "actions": [source] })).await;
    }

    /// Runs a script in the page; its result.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// The text of the whole page, as a person sees it.
    pub(crate) async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap().to_owned()
    }

    async fn element(&self, selector: &str) -> String {
        let by = json!({ "using": "css selector", "value": selector });
        let found = self.call("POST", "/element", &by).await;
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    pub(crate) async fn click(&self, selector: &str) {
        let element = self.element(selector).await;
        self.call("POST", &format!("/element/{element}/click"), &json!({})).await;
    }

    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.call("POST", &format!("/element/{element}/value"), &json!({ "text": text })).await;
    }

    /// Waits until a script returns true.
    pub(crate) async fn until(&self, what: &str, script: &str) {
        let asked = async {
            wait::until(what, || async { (self.run(script).await == true).then_some(()) }).await;
        };
        tokio::time::timeout(Duration::from_secs(90), asked).await.unwrap();
    }

    /// Complaints of the browser since it was last asked: violations of the policy among it.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.call("POST", "/se/log", &json!({ "type": "browser" })).await;
        let entries = log.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }
}
