//! The feed's reader: there all the time, at whichever node answers, and it remembers one number.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tollgate_api::{Feed, path};
use tollgate_testkit::http::ask;

use crate::event_log::{EventLog, FeedEntry};

/// The longest wait for a node: more than the `wait` of the request.
const PATIENCE: Duration = Duration::from_secs(4);

/// The pause before another node is asked.
const PAUSE: Duration = Duration::from_millis(100);

/// The end of every call of a run, for none can fail.
pub(crate) const CONFIRMED: &str = "CONFIRMED";
/// The end of a transaction that a client asked to cancel.
const FAILED: &str = "FAILED_FINAL";

/// Starts to read at these ports; goes on until it is aborted.
pub(crate) fn read(ports: Vec<u16>, log: Arc<EventLog>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut seen = Seen::default();
        for port in ports.iter().cycle() {
            // The same node as long as it answers.
            while let Some(entries) = page(*port, seen.last_seq).await {
                for what in seen.take(&entries, |tx_id| log.may_be_cancelled(tx_id)) {
                    log.violation(what);
                }
                // What was stuck for a while is not an outcome.
                log.read(entries.into_iter().filter(FeedEntry::is_final).collect());
            }
            sleep(PAUSE).await;
        }
    })
}

/// The next entries, if the node answers.
async fn page(port: u16, after: u64) -> Option<Vec<FeedEntry>> {
    let path = format!("{}?after={after}&limit=500&wait=2s&kind=all", path::COMPLETIONS);
    let said = timeout(PATIENCE, ask(port, "GET", &path, "")).await.ok()?.ok()?;
    if said.status != 200 {
        return None;
    }
    let feed: Feed = serde_json::from_value(said.body).ok()?;
    Some(feed.items.into_iter().map(FeedEntry::from).collect())
}

#[derive(Default)]
struct Seen {
    last_seq: u64,
    tx_ids: HashSet<String>,
}

impl Seen {
    /// Goes on by a page; what is wrong with it.
    fn take(
        &mut self,
        entries: &[FeedEntry],
        may_be_cancelled: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for entry in entries {
            if entry.seq != self.last_seq + 1 {
                wrong.push(format!("the feed went from {} to {}", self.last_seq, entry.seq));
            }
            self.last_seq = entry.seq;
            if !entry.is_final() {
                continue;
            }
            if !self.tx_ids.insert(entry.tx_id.clone()) {
                wrong.push(format!("the feed has {} twice", entry.tx_id));
            }
            let is_cancelled = || entry.state == FAILED && may_be_cancelled(&entry.tx_id);
            if entry.state != CONFIRMED && !is_cancelled() {
                wrong.push(format!("the feed says {} of {}", entry.state, entry.tx_id));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, tx_id: &str) -> FeedEntry {
        FeedEntry { seq, tx_id: tx_id.to_owned(), state: CONFIRMED.to_owned() }
    }

    #[test]
    fn consecutive_pages_are_in_order() {
        let mut seen = Seen::default();
        assert_eq!(seen.take(&[entry(1, "x"), entry(2, "y")], |_| false), [""; 0]);
        assert_eq!(seen.take(&[], |_| false), [""; 0]);
        assert_eq!(seen.take(&[entry(3, "z")], |_| false), [""; 0]);
    }

    #[test]
    fn a_skip_a_repetition_and_a_failure_are_noticed() {
        let mut seen = Seen::default();
        let mut take = |entries: &[FeedEntry]| seen.take(entries, |tx_id| tx_id == "v");
        assert_eq!(take(&[entry(1, "x"), entry(3, "y")]), ["the feed went from 1 to 3"]);
        assert_eq!(take(&[entry(4, "x")]), ["the feed has x twice"]);
        let failed = |seq, tx_id| FeedEntry { state: FAILED.to_owned(), ..entry(seq, tx_id) };
        assert_eq!(take(&[failed(5, "w")]), ["the feed says FAILED_FINAL of w"]);
        assert_eq!(take(&[failed(6, "v")]), [""; 0], "somebody asked for its end");
    }
}
