//! Removes finished transactions in the background: archive first, then the rows, in small batches.
//!
//! One node works at a time, by a claim in the database. Rows are removed only after the file that holds them
//! is durable: a crash in between leaves transactions in two files, and loses none.

mod archive;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_model::port::{Checkpoint, Checkpoints, FinishedTx, Page, Store};
use tollgate_model::{NodeId, Seq, TxId};
use tracing::{error, info, warn};

use crate::config::{Age, RetentionMode, RetentionSettings};
use crate::failure::Failure;
use archive::{Archive, ArchiveFile, lines_of};

/// The term of the claim, renewed with each batch. A node that dies is replaced after it.
const CLAIM_TERM: Duration = Duration::from_secs(15);
/// Transactions in one file of the archive (I13).
const FILE_MAX: usize = 2_000;
/// The pause after a step, as a multiple of the time that it took: removal takes a fifth of the time at most.
const REST_FACTOR: u32 = 4;

/// The settings, checked.
#[derive(Clone)]
pub(crate) struct RetentionOptions {
    finished_after: Duration,
    request_ids: Option<Duration>,
    /// `None`: what is removed is lost.
    archive: Option<Archive>,
    batch: Page,
    pause: Duration,
    interval: Duration,
}

impl RetentionOptions {
    /// `None` if finished transactions are kept for ever.
    pub(crate) fn new(settings: &RetentionSettings) -> Result<Option<Self>, Failure> {
        let Some(Age(finished_after)) = settings.finished_after else { return Ok(None) };
        let archive = match (settings.mode, &settings.archive_dir) {
            (Some(RetentionMode::Drop), _) => None,
            (_, Some(folder)) => Some(Archive::in_folder(folder)),
            (_, None) => return Err("retention.mode: archive needs retention.archive_dir".into()),
        };
        Ok(Some(Self {
            finished_after,
            request_ids: settings.request_ids.map(|Age(age)| age),
            archive,
            batch: Page::new(settings.batch_size)?,
            pause: settings.pause,
            interval: settings.interval,
        }))
    }

    /// Makes the folder of the archive if it is missing.
    ///
    /// # Errors
    /// It can't be written to.
    pub(crate) fn check_archive(&self) -> Result<(), Failure> {
        self.archive.as_ref().map_or(Ok(()), Archive::check)
    }
}

/// The numbers of one pass over the finished transactions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PassReport {
    /// Transactions that were removed; in a dry run, that would be.
    pub(crate) removed: u64,
    /// Transactions that are old enough and stay, as the highest final slot of their account.
    pub(crate) kept: u64,
    /// Removed transactions whose request ids were forgotten.
    pub(crate) forgotten: u64,
    /// Another node removes transactions at present.
    pub(crate) is_elsewhere: bool,
}

/// Removes transactions on behalf of one node.
#[derive(Clone)]
pub(crate) struct Remover {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) node: NodeId,
    pub(crate) options: RetentionOptions,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    /// True: end after the present batch.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Remover {
    /// Counts what a pass would remove.
    pub(crate) async fn dry_run(&self) -> Result<PassReport, Failure> {
        let (mut report, mut after) = (PassReport::default(), Seq::MIN);
        let page = Page::new(Page::MAX)?;
        loop {
            let found = self.store.finished(after, self.options.finished_after, page).await?;
            let Some(last) = found.last() else { return Ok(report) };
            after = last.seq;
            let removable = found.iter().filter(|tx| tx.is_removable).count() as u64;
            report.removed += removable;
            report.kept += found.len() as u64 - removable;
        }
    }

    /// Removes everything that is old enough, until it is told to stop.
    pub(crate) async fn pass(&self) -> Result<PassReport, Failure> {
        let mut report = PassReport::default();
        if !self.claim(CLAIM_TERM).await? {
            report.is_elsewhere = true;
            return Ok(report);
        }
        let done = self.remove_all(&mut report).await;
        // The next pass may be another node's. If this fails, the claim ends by itself.
        let _ = self.claim(Duration::ZERO).await;
        done.map(|()| report)
    }

    async fn remove_all(&self, report: &mut PassReport) -> Result<(), Failure> {
        let (mut after, mut is_last) = (Seq::MIN, false);
        while !is_last && self.goes_on().await? {
            let mut file = None;
            let mut tx_ids: Vec<TxId> = Vec::new();
            while tx_ids.len() < FILE_MAX && self.goes_on().await? {
                let begun = Instant::now();
                let age = self.options.finished_after;
                let found = self.store.finished(after, age, self.options.batch).await?;
                let Some(last) = found.last() else {
                    is_last = true;
                    break;
                };
                after = last.seq;
                let wanted: Vec<FinishedTx> =
                    found.iter().filter(|tx| tx.is_removable).copied().collect();
                report.kept += (found.len() - wanted.len()) as u64;
                tx_ids.extend(self.archive_page(&mut file, wanted).await?);
                self.rest(begun).await;
            }
            let file = match file {
                Some(file) => {
                    let name = file.finish().await?;
                    self.checkpoints.reached(Checkpoint::ArchiveWritten).await;
                    Some(name)
                }
                None => None,
            };
            let removed = self.remove(&tx_ids).await?;
            report.removed += removed;
            if removed > 0 {
                let file = file.as_deref().unwrap_or("none");
                info!(removed, through = %after, file, "finished transactions removed");
            }
        }
        self.forget(report).await
    }

    /// Adds transactions to the file, which is made for the first; returns those that may be removed.
    async fn archive_page(
        &self,
        file: &mut Option<ArchiveFile>,
        page: Vec<FinishedTx>,
    ) -> Result<Vec<TxId>, Failure> {
        let Some(archive) = &self.options.archive else {
            return Ok(page.iter().map(|tx| tx.tx_id).collect());
        };
        if page.is_empty() {
            return Ok(Vec::new());
        }
        let lines = lines_of(self.store.as_ref(), &page).await?;
        let tx_ids = lines.iter().map(|(tx, _)| tx.tx_id).collect();
        let open = match file.take() {
            Some(file) => file,
            None => archive.create().await?,
        };
        *file = Some(open.append(lines).await?);
        Ok(tx_ids)
    }

    async fn remove(&self, tx_ids: &[TxId]) -> Result<u64, Failure> {
        let mut removed = 0;
        for batch in tx_ids.chunks(self.options.batch.limit() as usize) {
            if !self.goes_on().await? {
                break;
            }
            let begun = Instant::now();
            removed += self.store.remove_finished(batch, self.options.finished_after).await?;
            self.rest(begun).await;
        }
        Ok(removed)
    }

    async fn forget(&self, report: &mut PassReport) -> Result<(), Failure> {
        let Some(age) = self.options.request_ids else { return Ok(()) };
        while self.goes_on().await? {
            let begun = Instant::now();
            let forgotten = self.store.forget_removed(age, self.options.batch).await?;
            report.forgotten += forgotten;
            if forgotten < u64::from(self.options.batch.limit()) {
                break;
            }
            self.rest(begun).await;
        }
        if report.forgotten > 0 {
            info!(forgotten = report.forgotten, "request ids of removed transactions forgotten");
        }
        Ok(())
    }

    /// Renews the claim; false if another node has it by now, or if the node stops.
    async fn goes_on(&self) -> Result<bool, Failure> {
        Ok(!*self.stop.borrow() && self.claim(CLAIM_TERM).await?)
    }

    async fn claim(&self, term: Duration) -> Result<bool, Failure> {
        Ok(self.store.claim_retention(&self.node, term).await?)
    }

    /// Leaves room for other work after a step: the more, the slower the database is.
    async fn rest(&self, begun: Instant) {
        let long = (begun.elapsed() * REST_FACTOR).min(CLAIM_TERM / 2);
        self.wait(self.options.pause.max(long)).await;
    }

    /// Waits for a time, or until the node stops.
    async fn wait(&self, time: Duration) {
        let mut stop = self.stop.clone();
        // An error: nobody is left who could say so, and the time passes.
        let stopped = async {
            if stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = stopped => {}
        }
    }
}

/// The background task of a node.
pub(crate) struct Retention {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Retention {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        node: NodeId,
        options: RetentionOptions,
        checkpoints: Arc<dyn Checkpoints>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let remover = Remover { store, node, options, checkpoints, stop: stopped };
        Self { stop, task: tokio::spawn(repeat(remover)) }
    }

    /// Makes the task end after its present batch.
    pub(crate) fn request_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the task has ended.
    pub(crate) async fn stop(self) {
        self.request_stop();
        let _ = self.task.await;
    }
}

/// Runs a pass at each interval. Each is a task of its own, so that a defect ends one pass only.
async fn repeat(remover: Remover) {
    while !*remover.stop.borrow() {
        let pass = remover.clone();
        match tokio::spawn(async move { pass.pass().await }).await {
            Ok(Ok(_)) => {}
            Ok(Err(why)) => warn!(error = %why, "finished transactions not removed; retrying"),
            Err(died) => {
                error!(error = %died, "removal of finished transactions panicked; retrying")
            }
        }
        remover.wait(remover.options.interval).await;
    }
}
