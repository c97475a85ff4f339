//! Follows a transaction until it is final, by its audit trail.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_api::{ChainList, HistoryEntry, Tx, path};

use super::show::{is_final, progress};
use crate::cli::remote::{Answer, Failed, Remote, print_line};
use crate::cli::table::clean;
use crate::cli::units::clock;

/// The interval at which the audit trail is read.
const INTERVAL: Duration = Duration::from_millis(250);

/// The wait of one call for a transaction's end.
const WAIT_SECONDS: u32 = 30;

/// A page of the audit trail whose entries are kept as they came.
#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<u32>,
}

/// Prints a line for each change until the transaction is final.
pub(super) async fn watch(remote: &mut Remote, tx_id: &str) -> Result<(), Failed> {
    let as_json = remote.json;
    let last = follow(remote, tx_id, &mut |bar, text, entry| {
        let line = if as_json { text.to_owned() } else { line(entry) };
        bar.suspend(|| print_line(&line))
    })
    .await?;
    check_confirmed(&last.to.state, &last.to.to_string())
}

/// The number of blocks that make a transaction of a chain final; `None` if another rule holds, or if the node does
/// not serve the chain.
pub(super) async fn blocks_needed(remote: &mut Remote, chain_id: u64) -> Option<u64> {
    let chains: ChainList = remote.get(path::CHAINS).await.ok()?.value;
    let chain = chains.items.into_iter().find(|it| it.chain.chain_id == chain_id)?;
    chain.chain.confirmations_needed
}

/// The state of a transaction, and how many blocks are on top of it: `TRACKING/MINED, 3 of 20 blocks`.
fn state_words(tx: &Tx, needed: Option<u64>) -> String {
    match progress(tx, needed) {
        Some(blocks) => format!("{}, {blocks} blocks", tx.state_name()),
        None => tx.state_name().to_string(),
    }
}

/// Waits until the transaction is final, and reads it.
pub(super) async fn until_final(remote: &mut Remote, tx: &Tx) -> Result<Answer<Tx>, Failed> {
    let bar = spinner();
    bar.set_message(tx.state_name().to_string());
    bar.enable_steady_tick(INTERVAL);
    let needed = blocks_needed(remote, tx.chain_id).await;
    // A bar that nobody sees needs no steps: the node holds the answer back.
    let wait = if bar.is_hidden() { WAIT_SECONDS } else { 1 };
    remote.wait_for_finality(wait);
    loop {
        let answer: Answer<Tx> = remote.get_patiently(&path::tx(&tx.tx_id)).await?;
        bar.set_message(state_words(&answer.value, needed));
        if is_final(&answer.value.state) {
            bar.finish_and_clear();
            return Ok(answer);
        }
        // A node that is too busy to let callers wait answers at once.
        tokio::time::sleep(INTERVAL).await;
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    match ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Fails if the transaction ended without being executed as asked.
pub(super) fn check_confirmed(state: &str, shown: &str) -> Result<(), Failed> {
    if state == "CONFIRMED" {
        return Ok(());
    }
    Err(Failed::NotAchieved(format!("the transaction ended as {shown}")))
}

/// Reads the audit trail entry by entry until it ends; returns the last entry.
async fn follow(
    remote: &mut Remote,
    tx_id: &str,
    show: &mut dyn FnMut(&ProgressBar, &str, &HistoryEntry) -> Result<(), Failed>,
) -> Result<HistoryEntry, Failed> {
    let bar = spinner();
    let (path, mut after) = (format!("{}/history", path::tx(tx_id)), 0);
    let mut page: Page = remote.get(&path).await?.value;
    let mut needed = None;
    loop {
        for text in page.items {
            let Ok(entry) = serde_json::from_str::<HistoryEntry>(text.get()) else { continue };
            after = entry.version;
            bar.set_message(entry.to.to_string());
            show(&bar, text.get(), &entry)?;
            if is_final(&entry.to.state) {
                bar.finish_and_clear();
                return Ok(entry);
            }
        }
        if page.next.is_none() && !bar.is_hidden() {
            let tx: Tx = remote.get_patiently(&path::tx(tx_id)).await?.value;
            if needed.is_none() {
                needed = blocks_needed(remote, tx.chain_id).await;
            }
            bar.set_message(state_words(&tx, needed));
        }
        bar.tick();
        if page.next.is_none() {
            tokio::time::sleep(INTERVAL).await;
        }
        page = remote.get_patiently(&format!("{path}?after={after}")).await?.value;
    }
}

/// A line that fits a terminal, unless the detail needs more: it is said only here.
pub(super) fn line(entry: &HistoryEntry) -> String {
    let line = format!(
        "{}  {:<16}  {:<22}  {}",
        clock(&entry.time),
        entry.event,
        entry.to.to_string(),
        clean(entry.detail.as_deref().unwrap_or_default())
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_shown_with_the_blocks_on_top_of_it() {
        let tx: Tx = serde_json::from_str(MINED).unwrap();
        assert_eq!(state_words(&tx, Some(20)), "TRACKING/MINED, 3 of 20 blocks");
        assert_eq!(state_words(&tx, None), "TRACKING/MINED, 3 blocks");
        let pending = Tx { result: None, sub_state: Some("PENDING".into()), ..tx };
        assert_eq!(state_words(&pending, Some(20)), "TRACKING/PENDING");
    }

    const MINED: &str = r#"{
        "txId": "0198c0de-7a11-7000-8000-00000000cafe", "chainId": 31337, "requestId": "order-1",
        "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "to": null, "value": "1",
        "state": "TRACKING", "subState": "MINED", "txHash": null, "blockedBy": null,
        "result": {
            "blockNumber": 7, "blockHash": "0x00", "blockTime": null, "transactionIndex": null,
            "gasUsed": "21000", "effectiveGasPrice": null, "fee": null, "contractAddress": null,
            "status": "success", "revertReason": null, "confirmations": 3
        },
        "createdAt": "2026-11-19T09:30:00Z", "updatedAt": "2026-11-19T09:30:00Z",
        "validUntil": null, "notBefore": null, "replaceable": false, "metadata": null
    }"#;
}
