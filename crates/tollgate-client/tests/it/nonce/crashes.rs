//! The caller dies at any moment: its future is dropped, or its process is killed.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tollgate_client::Client;
use tollgate_client::nonce::SlotError;
use tollgate_model::port::ReservationState::{Recyclable, Reserved};
use tollgate_testkit::wait::within;

use super::site::{Site, account, signer, transfer};

const URL: &str = "WITH_NONCE_TEST_URL";
/// Long enough for a child process to start, short enough to wait for.
const HOLD: Duration = Duration::from_secs(2);

/// A caller in a process of its own, which waits to be killed.
struct Caller {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    /// Runs the named test in a child process, where it acts as the caller.
    fn start(site: &Site, test: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", &format!("nonce::crashes::{test}")])
            .env(URL, &site.url)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, output }
    }

    /// The rest of the next output line that contains a word.
    async fn output_after(&mut self, word: &str) -> String {
        loop {
            let line = within(word, self.output.next_line()).await.unwrap().expect("more output");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// SIGKILL.
    async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}

/// The caller, in the process that is killed: reserves, signs if `signs`, and waits.
async fn wait_to_die(url: &str, signs: bool) {
    let client = Client::new([url]).unwrap().with_hold(HOLD);
    let run = client.with_nonce(account(), signer(), |slot| async move {
        println!("reserved {}", slot.nonce());
        if signs {
            let signed = slot.sign(transfer(100)).await?;
            println!("signed {}", signed.raw);
        }
        std::future::pending::<Result<(), SlotError>>().await
    });
    run.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_killed_before_signing_lets_its_nonce_expire() {
    if let Ok(url) = std::env::var(URL) {
        return wait_to_die(&url, false).await;
    }
    let site = Site::new().await;
    let test = "caller_killed_before_signing_lets_its_nonce_expire";
    let mut caller = Caller::start(&site, test);
    assert_eq!(caller.output_after("reserved").await, "0");
    caller.kill().await;
    site.until_out(&[(0, Recyclable)]).await;
    assert_eq!(site.managed(101).await, 0, "lowest first");
    assert_eq!(site.managed(102).await, 1);
    site.mine_until(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_killed_after_signing_keeps_its_nonce_used() {
    if let Ok(url) = std::env::var(URL) {
        return wait_to_die(&url, true).await;
    }
    let site = Site::new().await;
    let test = "caller_killed_after_signing_keeps_its_nonce_used";
    let mut caller = Caller::start(&site, test);
    assert_eq!(caller.output_after("reserved").await, "0");
    let raw = caller.output_after("signed").await.parse().unwrap();
    caller.kill().await;
    assert_eq!(site.out().await, [], "used, not held");
    // Another reservation expires after its deadline; nonce 0 stays used.
    let other = site.client().with_hold(HOLD).reserve(account()).await.unwrap();
    assert_eq!(other.nonce.get(), 1);
    site.until_out(&[(1, Recyclable)]).await;
    assert_eq!(site.managed(101).await, 1, "I3: 0 is never handed out again");
    // The bytes can still be sent: nothing else was signed for the nonce.
    site.send(&raw).await;
    site.mine_until(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_future_lets_its_nonce_expire() {
    let site = Site::new().await;
    let client = site.client().with_hold(Duration::from_secs(1));
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let run = client.with_nonce(account(), signer(), |slot| async move {
        sender.send(slot.nonce().get()).await.unwrap();
        std::future::pending::<Result<(), SlotError>>().await
    });
    tokio::select! {
        _ = run => panic!("it never ends"),
        nonce = receiver.recv() => assert_eq!(nonce, Some(0)),
    }
    assert_eq!(site.out().await, [(0, Reserved)]);
    site.until_out(&[(0, Recyclable)]).await;
    assert_eq!(site.managed(100).await, 0);
}
