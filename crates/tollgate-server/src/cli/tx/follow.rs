//! Following a transaction until it is final, by its audit trail.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::path_of;
use super::show::{clock, state};
use crate::cli::remote::{Remote, Said, Trouble, say};
use crate::cli::table::clean;

/// How often the trail is read.
const INTERVAL: Duration = Duration::from_millis(250);

/// Prints a line for each change until it is final.
pub(super) async fn watch(remote: &mut Remote, tx_id: &str) -> Result<(), Trouble> {
    let as_json = remote.json;
    let last = follow(remote, tx_id, &mut |bar, entry| {
        let line = if as_json { entry.to_string() } else { line(entry) };
        bar.suspend(|| say(&line))
    })
    .await?;
    verdict(&last["to"])
}

/// Waits until it is final, and reads it.
pub(super) async fn to_the_end(remote: &mut Remote, tx_id: &str) -> Result<Said, Trouble> {
    follow(remote, tx_id, &mut |_, _| Ok(())).await?;
    remote.get_patiently(&path_of(tx_id)).await
}

/// A failure where it ended without being executed as asked.
pub(super) fn verdict(ended: &Value) -> Result<(), Trouble> {
    if ended["state"] == "CONFIRMED" {
        return Ok(());
    }
    Err(Trouble::Failed(format!("the transaction ended as {}", state(ended))))
}

/// Reads the trail entry by entry; the last entry.
async fn follow(
    remote: &mut Remote,
    tx_id: &str,
    tell: &mut dyn FnMut(&ProgressBar, &Value) -> Result<(), Trouble>,
) -> Result<Value, Trouble> {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    let (path, mut after) = (format!("{}/history", path_of(tx_id)), 0);
    let mut page = remote.get(&path).await?;
    loop {
        for entry in page.json["items"].as_array().into_iter().flatten() {
            after = entry["version"].as_u64().unwrap_or(after);
            bar.set_message(state(&entry["to"]));
            tell(&bar, entry)?;
            if ["CONFIRMED", "FAILED_FINAL"].map(Value::from).contains(&entry["to"]["state"]) {
                bar.finish_and_clear();
                return Ok(entry.clone());
            }
        }
        bar.tick();
        if page.json["next"].is_null() {
            tokio::time::sleep(INTERVAL).await;
        }
        page = remote.get_patiently(&format!("{path}?after={after}")).await?;
    }
}

fn line(entry: &Value) -> String {
    let word = |name: &str| entry[name].as_str().unwrap_or_default();
    let line = format!(
        "{}  {:<16}  {:<22}  {}",
        clock(word("time")),
        word("event"),
        state(&entry["to"]),
        clean(word("detail"))
    );
    line.trim_end().to_owned()
}
