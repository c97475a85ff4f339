//! The node dies while it does what an operator asks for. The operator asks again, another node
//! finishes, and the chain shows each transaction once: paid, or closed by a transfer to self.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_model::port::Checkpoint;
use tollgate_testkit::{rpc, wait};

use super::stage::{ChainKind, Stage, StoreKind};

/// The value of the transaction that is cancelled.
const CANCELLED: u64 = 2;
/// The value of the transaction that is sped up.
const SPED_UP: u64 = 4;
/// Transactions in each run.
const COUNT: u64 = 5;
/// Fewer where one comes after the other.
const STRICT_COUNT: u64 = 3;

/// The action during which the node is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    Cancel,
    SpeedUp,
}

/// When the chain goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blocks {
    /// At once: everything is mined before anybody takes the work up.
    Meanwhile,
    /// When pools have what was asked for.
    Afterwards,
}

impl Stage {
    /// Transactions one after the other, so that values follow nonces; by value.
    async fn accept(&self, count: u64) -> BTreeMap<u64, String> {
        let mut accepted = BTreeMap::new();
        for value in 1..=count {
            accepted.insert(value, self.create(value).await);
        }
        accepted
    }

    async fn shown(&self, id: &str) -> Value {
        self.get(&format!("tx/{id}?view=operator")).await
    }

    async fn until(&self, id: &str, state: &str, sub_state: &str) {
        wait::until(sub_state, || async {
            let shown = self.shown(id).await;
            (shown["state"] == state && shown["subState"] == sub_state).then_some(())
        })
        .await;
    }

    /// Waits until a pool has the newest attempt.
    async fn until_pooled(&self, id: &str) {
        wait::until("the newest attempt to be in a pool", || async {
            let shown = self.shown(id).await;
            let newest = shown["attempts"].as_array().unwrap().last().unwrap().clone();
            self.is_pooled(newest["txHash"].as_str().unwrap()).await.then_some(())
        })
        .await;
    }

    /// Asks until it is done, or until it is too late for it; whether it was done.
    fn ask(&self, path: &str) -> impl Future<Output = bool> + Send + 'static {
        let url = self.url(path);
        async move {
            wait::until("an operator to be answered", || async {
                let body = json!({ "reason": "a test wants it" }).to_string();
                let (status, body) = rpc::request("POST", &url, &body).await.ok()?;
                let answer: Value = serde_json::from_str(&body).ok()?;
                let too_late = answer["code"] == "tx_mined" || answer["code"] == "tx_final";
                match status {
                    200 | 202 => Some(true),
                    409 if too_late => Some(false),
                    409 | 429 | 503 if answer["retryable"] == true => None,
                    _ => panic!("{status}: {answer}"),
                }
            })
            .await
        }
    }

    /// The verdict: the feed has each once, and the chain has what the feed says. Returns how the
    /// one that was cancelled ended.
    async fn judge(&self, accepted: &BTreeMap<u64, String>, cancelled: u64) -> &'static str {
        let feed = self.feed(accepted.len()).await;
        assert_eq!(feed.len(), accepted.len(), "one entry each: {feed:?}");
        let mined = self.mined().await;
        let us = dev_accounts()[0].address.to_string().to_lowercase();
        let (mut slots, mut end) = (0, "paid");
        for (value, id) in accepted {
            let mut entries = feed.iter().filter(|entry| entry["txId"] == **id);
            let entry = entries.next().unwrap_or_else(|| panic!("{value} is not in the feed"));
            let on_chain = mined.iter().find(|tx| tx["hash"] == entry["txHash"]);
            slots += usize::from(on_chain.is_some());
            let payments = mined.iter().filter(|tx| rpc::number(&tx["value"]) == *value).count();
            if entry["state"] == "CONFIRMED" {
                assert_eq!(payments, 1, "{value} is paid once: {mined:?}");
                assert_eq!(rpc::number(&on_chain.unwrap()["value"]), *value, "by that hash");
                continue;
            }
            assert_eq!(*value, cancelled, "only what was cancelled is not paid: {entry}");
            let ended = (&entry["state"], &entry["subState"]);
            assert_eq!(ended, (&json!("FAILED_FINAL"), &json!("CANCELLED")));
            assert_eq!(payments, 0, "cancelled and paid: {mined:?}");
            end = match on_chain {
                Some(tx) => {
                    assert_eq!(tx["to"].as_str().unwrap().to_lowercase(), us, "to self");
                    assert_eq!(rpc::number(&tx["value"]), 0);
                    "closed"
                }
                None => {
                    assert_eq!(entry["txHash"], Value::Null);
                    "withdrawn"
                }
            };
        }
        assert_eq!(slots, mined.len(), "nothing else is on the chain: {mined:?}");
        end
    }
}

/// Lets a node die while it cancels one of five or speeds up another; a second one is asked for
/// both.
async fn dies_in(deed: Deed, at: Checkpoint, blocks: Blocks, store: StoreKind) {
    let stage = Stage::set(store, ChainKind::Devchain, "pipelined").await;
    stage.mine(false).await;
    let mut doomed = stage.doomed(at);
    let accepted = stage.accept(COUNT).await;
    for id in accepted.values() {
        stage.until(id, "TRACKING", "PENDING").await;
    }
    let (cancelled, sped_up) = (&accepted[&CANCELLED], &accepted[&SPED_UP]);
    let cancel = stage.ask(&format!("tx/{cancelled}/cancel"));
    let speed_up = stage.ask(&format!("tx/{sped_up}/speed-up"));
    stage.arm();
    let (first, second) = match deed {
        Deed::Cancel => (tokio::spawn(cancel), tokio::spawn(async { false })),
        Deed::SpeedUp => (tokio::spawn(async { false }), tokio::spawn(speed_up)),
    };
    assert_eq!(doomed.ended().await, Some(9), "killed at {}", at.name());
    if blocks == Blocks::Meanwhile {
        stage.mine(true).await;
        wait::until("all to be mined", || async {
            (stage.mined().await.len() == accepted.len()).then_some(())
        })
        .await;
    }
    let _heir = stage.node(None);
    let done = (first.await.unwrap(), second.await.unwrap());
    // Whoever is done, or was never asked, is asked once more.
    let done = (
        done.0 | stage.ask(&format!("tx/{cancelled}/cancel")).await,
        done.1 | stage.ask(&format!("tx/{sped_up}/speed-up")).await,
    );
    if blocks == Blocks::Afterwards {
        assert_eq!(done, (true, true));
        stage.until_pooled(cancelled).await;
        stage.until_pooled(sped_up).await;
        stage.mine(true).await;
    }
    let end = stage.judge(&accepted, CANCELLED).await;
    // What was in the pool when the blocks came is what they hold.
    let was_sent = blocks == Blocks::Afterwards || at == Checkpoint::NodeAnswered;
    assert_eq!(end, if was_sent { "closed" } else { "paid" });
}

/// The same in strict mode: the first has the only slot, the others wait for one.
async fn strict_dies_in(cancelled: u64, at: Checkpoint, store: StoreKind) {
    let stage = Stage::set(store, ChainKind::Devchain, "strict").await;
    stage.mine(false).await;
    let mut doomed = stage.doomed(at);
    let accepted = stage.accept(STRICT_COUNT).await;
    stage.until(&accepted[&1], "TRACKING", "PENDING").await;
    stage.until(&accepted[&STRICT_COUNT], "QUEUED", "WAITING").await;
    let cancel = format!("tx/{}/cancel", accepted[&cancelled]);
    stage.arm();
    let asked = tokio::spawn(stage.ask(&cancel));
    assert_eq!(doomed.ended().await, Some(9), "killed at {}", at.name());
    let _heir = stage.node(None);
    assert!(asked.await.unwrap() && stage.ask(&cancel).await, "asked twice, the same is true");
    if cancelled == 1 {
        stage.until_pooled(&accepted[&1]).await;
    }
    stage.mine(true).await;
    let end = stage.judge(&accepted, cancelled).await;
    assert_eq!(end, if cancelled == 1 { "closed" } else { "withdrawn" });
}

/// A node dies as it pauses, and the next one as it resumes; both are asked again.
async fn dies_at_a_standstill(at: Checkpoint, store: StoreKind) {
    let stage = Stage::set(store, ChainKind::Devchain, "pipelined").await;
    let submitter = format!("submitters/{}", dev_accounts()[0].address);
    let is_durable = at == Checkpoint::BatchCommitted;
    let status = async || stage.get(&submitter).await["status"].clone();
    let mut first = stage.doomed(at);
    assert_eq!(status().await, "ACTIVE");
    let pause = format!("{submitter}/pause");
    stage.arm();
    let asked = tokio::spawn(stage.ask(&pause));
    assert_eq!(first.ended().await, Some(9), "killed as it pauses");
    asked.abort();
    let mut second = stage.doomed(at);
    assert_eq!(status().await, if is_durable { "PAUSED" } else { "ACTIVE" });
    assert!(stage.ask(&pause).await);
    assert_eq!(status().await, "PAUSED");
    let accepted = stage.accept(COUNT).await;
    for id in accepted.values() {
        stage.until(id, "QUEUED", "HELD").await;
    }
    assert_eq!(stage.mined().await, Vec::<Value>::new());
    let resume = format!("{submitter}/resume");
    stage.arm();
    let asked = tokio::spawn(stage.ask(&resume));
    assert_eq!(second.ended().await, Some(9), "killed as it resumes");
    asked.abort();
    let _third = stage.node(None);
    assert_eq!(status().await, if is_durable { "ACTIVE" } else { "PAUSED" });
    assert!(stage.ask(&resume).await);
    stage.check(accepted).await;
}

macro_rules! on {
    ($($place:ident: $store:ident;)*) => {$(
        mod $place {
            use super::*;

            on!(@deeds $store,
                a_cancel_at_attempts_signed: Cancel, AttemptsSigned, Afterwards;
                a_cancel_at_batch_written: Cancel, BatchWritten, Afterwards;
                a_cancel_at_batch_committed: Cancel, BatchCommitted, Afterwards;
                a_cancel_at_action_claimed: Cancel, ActionClaimed, Afterwards;
                a_cancel_at_sending: Cancel, Sending, Afterwards;
                a_cancel_at_node_answered: Cancel, NodeAnswered, Afterwards;
                a_cancel_at_batch_written_while_blocks_come: Cancel, BatchWritten, Meanwhile;
                a_cancel_at_action_claimed_while_blocks_come: Cancel, ActionClaimed, Meanwhile;
                a_cancel_at_node_answered_while_blocks_come: Cancel, NodeAnswered, Meanwhile;
                a_speed_up_at_attempts_signed: SpeedUp, AttemptsSigned, Afterwards;
                a_speed_up_at_batch_written: SpeedUp, BatchWritten, Afterwards;
                a_speed_up_at_batch_committed: SpeedUp, BatchCommitted, Afterwards;
                a_speed_up_at_action_claimed: SpeedUp, ActionClaimed, Afterwards;
                a_speed_up_at_sending: SpeedUp, Sending, Afterwards;
            );

            on!(@strict $store,
                a_strict_cancel_at_attempts_signed: 1, AttemptsSigned;
                a_strict_cancel_at_batch_written: 1, BatchWritten;
                a_strict_cancel_at_batch_committed: 1, BatchCommitted;
                a_strict_cancel_at_action_claimed: 1, ActionClaimed;
                a_strict_cancel_at_sending: 1, Sending;
                a_withdrawal_at_batch_written: 2, BatchWritten;
                a_withdrawal_at_batch_committed: 2, BatchCommitted;
            );

            on!(@standstill $store,
                pause_and_resume_at_batch_written: BatchWritten;
                pause_and_resume_at_batch_committed: BatchCommitted;
            );
        }
    )*};
    (@deeds $store:ident, $($name:ident: $deed:ident, $at:ident, $blocks:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            dies_in(Deed::$deed, Checkpoint::$at, Blocks::$blocks, StoreKind::$store).await;
        }
    )*};
    (@strict $store:ident, $($name:ident: $cancelled:literal, $at:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            strict_dies_in($cancelled, Checkpoint::$at, StoreKind::$store).await;
        }
    )*};
    (@standstill $store:ident, $($name:ident: $at:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            dies_at_a_standstill(Checkpoint::$at, StoreKind::$store).await;
        }
    )*};
}

on! {
    postgres: Postgres;
    sqlite: Sqlite;
}
