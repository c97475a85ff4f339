//! Follows a transaction until it is final, by its audit trail.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_api::{HistoryEntry, Tx, path};

use super::show::clock;
use crate::cli::remote::{Answer, Failed, Remote, print_line};
use crate::cli::table::clean;

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

/// Waits until the transaction is final, and reads it.
pub(super) async fn until_final(remote: &mut Remote, tx: &Tx) -> Result<Answer<Tx>, Failed> {
    let bar = spinner();
    bar.set_message(tx.state_name().to_string());
    bar.enable_steady_tick(INTERVAL);
    remote.wait_for_finality(WAIT_SECONDS);
    loop {
        let answer: Answer<Tx> = remote.get_patiently(&path::tx(&tx.tx_id)).await?;
        bar.set_message(answer.value.state_name().to_string());
        if is_final(&answer.value.state) {
            bar.finish_and_clear();
            return Ok(answer);
        }
        // A node that is too busy to let callers wait answers at once.
        tokio::time::sleep(INTERVAL).await;
    }
}

fn is_final(state: &str) -> bool {
    ["CONFIRMED", "FAILED_FINAL"].contains(&state)
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
        bar.tick();
        if page.next.is_none() {
            tokio::time::sleep(INTERVAL).await;
        }
        page = remote.get_patiently(&format!("{path}?after={after}")).await?.value;
    }
}

fn line(entry: &HistoryEntry) -> String {
    let line = format!(
        "{}  {:<16}  {:<22}  {}",
        clock(&entry.time),
        entry.event,
        entry.to.to_string(),
        clean(entry.detail.as_deref().unwrap_or_default())
    );
    line.trim_end().to_owned()
}
