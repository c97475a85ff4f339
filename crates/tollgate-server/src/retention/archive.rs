//! The archive of removed transactions: files of JSON lines, compressed with gzip.
//!
//! A file gets its name when everything in it is durable, and is never changed after that. One that ends in
//! `.partial` is left of a process that was killed; its transactions are still in the database.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use tollgate_api::{ConfirmationList, HistoryEntry, OperatorTx, Tx};
use tollgate_model::port::{FinishedRecord, FinishedTx, Page, Store};
use tollgate_model::{Seq, TxId};
use uuid::Uuid;

use crate::failure::{Failure, io_reason};

/// The age of a file without a name that no process writes to any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(3_600);

/// A transaction as it is archived.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArchivedTx {
    /// The number of its final entry in the feed.
    seq: u64,
    tx: OperatorTx,
    /// The stored intent.
    payload: String,
    /// The signed bytes of each attempt.
    raw_attempts: Vec<String>,
    history: Vec<HistoryEntry>,
    confirmations: Option<ConfirmationList>,
}

/// The lines of transactions; those that are not there any more are left out.
pub(super) async fn lines_of(
    store: &dyn Store,
    page: &[FinishedTx],
) -> Result<Vec<(FinishedTx, Vec<u8>)>, Failure> {
    let seqs: HashMap<TxId, FinishedTx> = page.iter().map(|tx| (tx.tx_id, *tx)).collect();
    let tx_ids: Vec<TxId> = page.iter().map(|tx| tx.tx_id).collect();
    let mut lines = Vec::with_capacity(page.len());
    for mut whole in store.finished_records(&tx_ids).await? {
        let Some(tx) = seqs.get(&whole.record.tx_id) else { continue };
        read_rest_of_history(store, &mut whole).await?;
        let FinishedRecord { record, attempts, history, confirmations } = &whole;
        let archived = ArchivedTx {
            seq: tx.seq.get(),
            tx: OperatorTx::new(Tx::from(record), record, attempts, history),
            payload: record.payload.to_string(),
            raw_attempts: attempts.iter().map(|attempt| attempt.raw.to_string()).collect(),
            history: history.iter().map(HistoryEntry::from).collect(),
            confirmations: confirmations
                .as_ref()
                .map(|list| ConfirmationList::new(list.new_fork, list.first_block, &list.hashes)),
        };
        let mut line = serde_json::to_vec(&archived)?;
        line.push(b'\n');
        lines.push((*tx, line));
    }
    Ok(lines)
}

/// Reads what is beyond the first page of an audit trail.
async fn read_rest_of_history(
    store: &dyn Store,
    whole: &mut FinishedRecord,
) -> Result<(), Failure> {
    let page = Page::new(Page::MAX)?;
    let mut is_full = whole.history.len() >= page.limit() as usize;
    while let Some(last) = whole.history.last().filter(|_| is_full) {
        let found = store.history(whole.record.tx_id, last.version, page).await?;
        is_full = found.len() >= page.limit() as usize;
        whole.history.extend(found);
    }
    Ok(())
}

/// A folder of files.
#[derive(Clone)]
pub(super) struct Archive {
    folder: PathBuf,
}

impl Archive {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Makes the folder if it is missing, checks that files can be written there, and removes what a killed
    /// process has left.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let checked = make_folder(&self.folder).and_then(|()| {
            let probe = self.partial();
            OpenOptions::new().write(true).create_new(true).open(&probe)?;
            std::fs::remove_file(probe)
        });
        let named = |error| {
            let (folder, why) = (self.folder.display(), io_reason(&error));
            format!("retention.archive_dir: can't write to {folder}: {why}")
        };
        checked.map_err(named)?;
        self.remove_abandoned();
        Ok(())
    }

    /// Removes files without a name that nobody has written to for long.
    fn remove_abandoned(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_partial = path.extension().is_some_and(|ending| ending == "partial");
            let age = path.metadata().and_then(|file| file.modified());
            let is_old = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED_AFTER));
            if is_partial && is_old {
                // It is tried again at the next start.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn partial(&self) -> PathBuf {
        self.folder.join(format!("{}.partial", Uuid::now_v7().simple()))
    }

    /// Begins a file. Only its owner may read it: it holds what callers paid for.
    pub(super) async fn create(&self) -> Result<ArchiveFile, Failure> {
        let (folder, partial) = (self.folder.clone(), self.partial());
        blocking(move || {
            make_folder(&folder)?;
            let file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
            let lines = GzEncoder::new(BufWriter::new(file), Compression::default());
            let partial = PartialFile(partial);
            Ok(ArchiveFile { folder, partial, lines, first: None, last: Seq::MIN })
        })
        .await
    }
}

/// Makes a folder that is missing. Only its owner may enter it.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The path of a file without a name of its own yet; removed unless it got one.
struct PartialFile(PathBuf);

impl Drop for PartialFile {
    fn drop(&mut self) {
        // It was renamed, or what is left of it is of no use.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A file that is being written.
pub(super) struct ArchiveFile {
    folder: PathBuf,
    partial: PartialFile,
    lines: GzEncoder<BufWriter<File>>,
    first: Option<Seq>,
    last: Seq,
}

impl ArchiveFile {
    pub(super) async fn append(
        mut self,
        lines: Vec<(FinishedTx, Vec<u8>)>,
    ) -> Result<Self, Failure> {
        blocking(move || {
            for (tx, line) in &lines {
                self.first.get_or_insert(tx.seq);
                self.last = tx.seq;
                self.lines.write_all(line)?;
            }
            Ok(self)
        })
        .await
    }

    /// Makes the file durable under its name, which tells the numbers of the feed in it; returns the name.
    /// Names are unique: a repeat after a crash never replaces an earlier file.
    pub(super) async fn finish(self) -> Result<String, Failure> {
        blocking(move || {
            let Self { folder, partial, lines, first, last } = self;
            let (first, unique) = (first.unwrap_or(Seq::MIN).get(), Uuid::now_v7().simple());
            let name = format!("finished-{first:020}-{:020}-{unique}.jsonl.gz", last.get());
            lines.finish()?.into_inner().map_err(|error| error.into_error())?.sync_all()?;
            std::fs::rename(&partial.0, folder.join(&name))?;
            File::open(folder)?.sync_all()?;
            Ok(name)
        })
        .await
    }
}

/// Runs file operations where they may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await?;
    done.map_err(|error| format!("archive: {}", io_reason(&error)).into())
}
