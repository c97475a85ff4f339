//! Settings of the removal of finished transactions.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::table::settings;
use crate::config::types::{Age, RetentionMode};

settings! {
    /// The removal of finished transactions.
    struct RetentionSettings {
        /// Age from which finished transactions are removed from the database, see
        /// [retention](operations/retention.md). Off if not set: they are kept for ever.
        finished_after: Option<Age>, min = "1s", example = "\"90d\"";
        /// Use of transactions that are removed. `archive`: they are written to `retention.archive_dir`
        /// first. `drop`: they are lost. Required with `retention.finished_after`.
        mode: Option<RetentionMode>, needs = "retention.finished_after", example = "\"archive\"";
        /// Folder of the archive: compressed JSON lines. Made if it is missing.
        archive_dir: Option<PathBuf>, needs = "retention.finished_after",
            example = "\"/var/lib/tollgate/archive\"";
        /// Time after its end for which a removed transaction's request id is known: a repeat within it
        /// never makes a second transaction. Must not be below `retention.finished_after`. For ever if
        /// not set.
        request_ids: Option<Age>, min = "1s", needs = "retention.finished_after",
            example = "\"365d\"";
        /// Transactions removed in one database transaction.
        batch_size: u32 = "500", range = (1, 1_000), needs = "retention.finished_after";
        /// The shortest pause between two batches. It is at least four times as long as the batch took,
        /// so that other work has room.
        pause: Duration = "50ms", needs = "retention.finished_after";
        /// Interval between two looks for transactions to remove. One node of all looks at a time.
        interval: Duration = "1m", min = "100ms", needs = "retention.finished_after";
    }
}
