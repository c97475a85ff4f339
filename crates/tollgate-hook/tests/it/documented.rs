//! `docs/stuck-hook.md` shows what is sent, and its receiver works.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tollgate_hook::{HookOptions, HookSecret, HttpHook};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::policy::{StuckAction, StuckContext, StuckPolicy};
use tollgate_model::{Address, Bytes, Intent, Timestamp, U256};

use crate::receiver::{Receiver, ok};
use crate::support::{SECRET, context, patient};

/// A receiver that has not come up by then does not.
const PATIENCE: Duration = Duration::from_secs(30);

/// The code block that follows a mark.
fn block(mark: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stuck-hook.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once(&format!("<!-- {mark} -->\n```")).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// The question of the page.
fn asked() -> StuckContext {
    let mut asked = context();
    let ether = U256::from(1_000_000_000_000_000_000_u64);
    let mut intent = Intent::transfer(Address::repeat_byte(3), ether);
    intent.data = Bytes::from_static(&[0xab, 0xcd]);
    intent.metadata = Some("{\"customer\":\"gold\"}".to_owned());
    asked.tx.payload = intent.to_payload().unwrap().bytes().clone();
    asked
}

#[tokio::test]
async fn the_question_of_the_page_is_the_one_that_is_sent() {
    let receiver = Receiver::start(vec![ok(r#"{"action": "noop"}"#)]).await;
    patient(&receiver.url).decide(&asked()).await;
    let sent: Value = serde_json::from_slice(&receiver.heard()[0].body).unwrap();
    let shown: Value = serde_json::from_str(&block("question")).unwrap();
    assert_eq!(sent, shown);
}

/// The receiver checks that a question is not old.
struct Now;

impl Clock for Now {
    #[expect(clippy::disallowed_methods, reason = "as a node's own clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// A clock that stands still.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }
}

struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the receiver of the page; gives its URL.
fn start() -> (Script, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("python3");
    command.args(["-c", &block("receiver")]);
    command.env("HOOK_SECRET", SECRET).env("PORT", port.to_string());
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let script = Script(quiet.spawn().expect("python3 is on the machine: scripts/setup python"));
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the receiver does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    (script, format!("http://127.0.0.1:{port}/stuck"))
}

fn hook(url: &str, secret: &str, clock: Arc<dyn Clock>) -> HttpHook {
    let options = HookOptions::new(url, HookSecret::parse(secret).unwrap()).unwrap();
    HttpHook::new(options.with_patience(PATIENCE, 0), clock)
}

#[tokio::test]
async fn the_receiver_of_the_page_decides_checks_the_signature_and_remembers() {
    let (_script, url) = start();
    let genuine = hook(&url, SECRET, Arc::new(Now));
    let decision = genuine.decide(&asked()).await;
    assert!(!decision.failed, "{}", decision.reason);
    assert_eq!(decision.action, StuckAction::Replace);
    assert_eq!(decision.reason.as_str(), "gold waits too long");
    let max_fee = decision.replacement.max_fee_per_gas.map(|fee| fee.wei());
    assert_eq!(max_fee, Some(45_000_000_000));

    // The same question: the same answer, whatever else has changed.
    let younger = StuckContext { age: Duration::ZERO, ..asked() };
    assert_eq!(genuine.decide(&younger).await, decision);
    let mut another = younger;
    another.question += 1;
    let noop = genuine.decide(&another).await;
    assert_eq!((noop.action, noop.failed), (StuckAction::Noop, false));
    assert_eq!(noop.fields.unwrap().as_str(), "{\"depth\": 12}");

    let forger = hook(&url, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Arc::new(Now));
    let refused = forger.decide(&asked()).await;
    assert!(refused.failed);
    assert_eq!(refused.reason.as_str(), "the hook answered 401");
    // Signed well, but long ago.
    let stale = hook(&url, SECRET, Arc::new(Stopped)).decide(&asked()).await;
    assert_eq!(stale.reason.as_str(), "the hook answered 401");
}
