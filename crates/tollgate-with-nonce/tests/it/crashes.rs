//! The caller dies, at any moment: the future is dropped, or the whole process is killed.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tollgate_model::port::ReservationState::{Recyclable, Reserved};
use tollgate_testkit::wait::within;
use with_nonce::{Client, SlotError};

use crate::site::{Site, account, signer, transfer};

const URL: &str = "WITH_NONCE_TEST_URL";
/// Long enough for a child to come up, short enough to wait for.
const HOLD: Duration = Duration::from_secs(2);

/// A caller in a process of its own, which stops where it is told to and waits to be killed.
struct Caller {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    /// Runs the named test in a process of its own, where it is the caller.
    fn start(site: &Site, test: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", &format!("crashes::{test}")])
            .env(URL, &site.url)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    /// What it says after a word.
    async fn says(&mut self, word: &str) -> String {
        loop {
            let line = within(word, self.said.next_line()).await.unwrap().expect("it says more");
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

/// The part of the caller, in the process that is killed: reserves, signs if it is told to, and waits.
async fn wait_to_die(url: &str, signs: bool) {
    let client = Client::new(url).unwrap().with_hold(HOLD);
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
async fn killed_before_signing_its_nonce_expires_and_goes_to_the_next() {
    if let Ok(url) = std::env::var(URL) {
        return wait_to_die(&url, false).await;
    }
    let site = Site::new().await;
    let test = "killed_before_signing_its_nonce_expires_and_goes_to_the_next";
    let mut caller = Caller::start(&site, test);
    assert_eq!(caller.says("reserved").await, "0");
    caller.kill().await;
    site.until_out(&[(0, Recyclable)]).await;
    assert_eq!(site.managed(101).await, 0, "lowest first");
    assert_eq!(site.managed(102).await, 1);
    site.mine_until(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_signing_its_nonce_stays_used_and_what_it_signed_can_be_sent() {
    if let Ok(url) = std::env::var(URL) {
        return wait_to_die(&url, true).await;
    }
    let site = Site::new().await;
    let test = "killed_after_signing_its_nonce_stays_used_and_what_it_signed_can_be_sent";
    let mut caller = Caller::start(&site, test);
    assert_eq!(caller.says("reserved").await, "0");
    let raw = caller.says("signed").await.parse().unwrap();
    caller.kill().await;
    assert_eq!(site.out().await, [], "used, not held");
    // Something else expires after its deadline, and it does not come back with it.
    let other = site.client().with_hold(HOLD).reserve(account()).await.unwrap();
    assert_eq!(other.nonce.get(), 1);
    site.until_out(&[(1, Recyclable)]).await;
    assert_eq!(site.managed(101).await, 1, "I3: 0 is never handed out again");
    // Whoever has the bytes can still send them: nothing else was signed for the nonce.
    site.send(&raw).await;
    site.mine_until(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_lets_its_nonce_expire() {
    let site = Site::new().await;
    let client = site.client().with_hold(Duration::from_secs(1));
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let run = client.with_nonce(account(), signer(), |slot| async move {
        told.send(slot.nonce().get()).await.unwrap();
        std::future::pending::<Result<(), SlotError>>().await
    });
    tokio::select! {
        _ = run => panic!("it never ends"),
        nonce = heard.recv() => assert_eq!(nonce, Some(0)),
    }
    assert_eq!(site.out().await, [(0, Reserved)]);
    site.until_out(&[(0, Recyclable)]).await;
    assert_eq!(site.managed(100).await, 0);
}
