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
pub(super) async fn until_final(remote: &mut Remote, tx_id: &str) -> Result<Answer<Tx>, Failed> {
    follow(remote, tx_id, &mut |_, _, _| Ok(())).await?;
    remote.get_patiently(&path::tx(tx_id)).await
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
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    let (path, mut after) = (format!("{}/history", path::tx(tx_id)), 0);
    let mut page: Page = remote.get(&path).await?.value;
    loop {
        for text in page.items {
            let Ok(entry) = serde_json::from_str::<HistoryEntry>(text.get()) else { continue };
            after = entry.version;
            bar.set_message(entry.to.to_string());
            show(&bar, text.get(), &entry)?;
            if ["CONFIRMED", "FAILED_FINAL"].contains(&&*entry.to.state) {
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
