//! Deletes old entries of the audit log in the background. Any node may: each deletes what it finds.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tollgate_model::port::{Page, Store};
use tracing::{info, warn};

use crate::failure::Failure;

/// The interval between two looks for old entries.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// Entries that are deleted in one statement (I13).
const BATCH: u32 = 500;

/// The background task of a node. It ends when the value is dropped.
pub(crate) struct AuditCleaner(JoinHandle<()>);

impl AuditCleaner {
    /// Deletes entries older than `keep` from now on.
    pub(crate) fn start(store: Arc<dyn Store>, keep: Duration) -> Self {
        Self(tokio::spawn(async move {
            let mut looks = interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                looks.tick().await;
                match forget(&*store, keep).await {
                    Ok(0) => {}
                    Ok(removed) => info!(removed, "old entries of the audit log deleted"),
                    Err(error) => {
                        warn!(%error, "old entries of the audit log not deleted; retrying");
                    }
                }
            }
        }))
    }
}

impl Drop for AuditCleaner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Deletes all entries older than `keep`; returns how many.
async fn forget(store: &dyn Store, keep: Duration) -> Result<u64, Failure> {
    let mut removed = 0;
    loop {
        let batch = store.forget_audit(keep, Page::new(BATCH)?).await?;
        removed += batch;
        if batch < u64::from(BATCH) {
            return Ok(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_model::Text;
    use tollgate_model::audit::{AuditAuthor, AuditEntry, AuditedAction};
    use tollgate_model::port::AuditStore as _;
    use tollgate_sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn entries_of_several_batches_are_deleted_once_they_are_old_enough() {
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        let entry = AuditEntry {
            author: AuditAuthor::command_line(),
            action: AuditedAction::ReplayEvents,
            subject: Text::lossy("all"),
            reason: None,
        };
        for _ in 0..=BATCH {
            store.record_audit(&entry).await.unwrap();
        }
        assert_eq!(forget(&store, Duration::from_secs(3_600)).await.unwrap(), 0);
        assert_eq!(forget(&store, Duration::ZERO).await.unwrap(), u64::from(BATCH) + 1);
        assert!(store.audit_entries(None, Page::new(1).unwrap()).await.unwrap().is_empty());
    }
}
