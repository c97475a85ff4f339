//! Writes log lines on a thread of its own, so that no task waits for a terminal, a pipe or a disk.
//!
//! Owns the lines that are not written yet, at most [`PENDING_BYTES_MAX`] of them (I13). A line beyond that is
//! lost: a node must not stop because nobody reads its log. Lost lines are counted in
//! `tollgate_log_lines_dropped_total`, and the next line that is written says how many they were.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tollgate_metrics::{LogLevel, NodeMetrics};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Some ten thousand lines.
const PENDING_BYTES_MAX: usize = 16 << 20;
/// A buffer that has grown beyond this is given back after it was written.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The log of this process, for [`flush`].
static PROCESS_LOG: OnceLock<LogWriter> = OnceLock::new();

/// The way to the thread that writes.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<Shared>);

struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
    metrics: Arc<NodeMetrics>,
}

#[derive(Default)]
struct Pending {
    lines: Vec<u8>,
    /// Lines that were lost since the last write.
    lost: u64,
    /// The thread is writing.
    is_writing: bool,
}

impl LogWriter {
    /// Starts the thread; `lost` is the line that tells how many lines were lost.
    pub(super) fn start(
        to: impl Write + Send + 'static,
        lost: fn(u64) -> String,
        metrics: Arc<NodeMetrics>,
    ) -> Self {
        let pending = Mutex::new(Pending::default());
        let log = Self(Arc::new(Shared { pending, changed: Condvar::new(), metrics }));
        let (shared, mut to) = (log.0.clone(), to);
        let run = move || shared.write_for_ever(&mut to, lost);
        // Without a thread there is no log, and a line about it would go there.
        let _ = thread::Builder::new().name("tollgate-log".to_owned()).spawn(run);
        let _ = PROCESS_LOG.set(log.clone());
        log
    }

    /// Waits until everything is written, at most for this long.
    fn flush(&self, within: Duration) {
        let pending = self.0.lock();
        let is_busy = |pending: &mut Pending| pending.is_writing || !pending.lines.is_empty();
        let _ = self.0.changed.wait_timeout_while(pending, within, is_busy);
    }
}

/// Waits until the log of this process is written, at most for this long.
pub(super) fn flush(within: Duration) {
    if let Some(log) = PROCESS_LOG.get() {
        log.flush(within);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut pending = self.lock();
        if pending.lines.len() + line.len() > PENDING_BYTES_MAX {
            pending.lost += 1;
            self.metrics.tollgate.log_lines_dropped_total.inc();
            return;
        }
        let was_empty = pending.lines.is_empty();
        pending.lines.extend_from_slice(line);
        drop(pending);
        if was_empty {
            self.changed.notify_all();
        }
    }

    fn write_for_ever(&self, to: &mut impl Write, lost_line: fn(u64) -> String) {
        let mut lines = Vec::new();
        loop {
            let lost = {
                let mut pending = self.lock();
                pending.is_writing = false;
                self.changed.notify_all();
                let has_none = |pending: &mut Pending| pending.lines.is_empty();
                let waited = self.changed.wait_while(pending, has_none);
                let mut pending = waited.unwrap_or_else(PoisonError::into_inner);
                pending.is_writing = true;
                std::mem::swap(&mut pending.lines, &mut lines);
                std::mem::take(&mut pending.lost)
            };
            if lost > 0 {
                lines.extend_from_slice(lost_line(lost).as_bytes());
            }
            // What can't be written is lost, and nothing else is.
            let _ = to.write_all(&lines).and_then(|()| to.flush());
            lines.clear();
            lines.shrink_to(KEPT_BYTES_MAX);
        }
    }
}

/// One line.
pub(super) struct Line<'a>(&'a Shared);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(&self.0)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let level = match *metadata.level() {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warn,
            Level::INFO => LogLevel::Info,
            Level::DEBUG | Level::TRACE => LogLevel::Debug,
        };
        self.0.metrics.tollgate.log_lines_total.inc(level);
        self.make_writer()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes a line when the test lets it.
    struct Slow {
        began: mpsc::Sender<()>,
        go_on: mpsc::Receiver<()>,
        taken: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.began.send(());
            let _ = self.go_on.recv();
            let _ = self.taken.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_and_said_to_be_lost() {
        let ((began, begun), (go, go_on), (taken, read)) =
            (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let metrics = Arc::new(NodeMetrics::default());
        let slow = Slow { began, go_on, taken };
        let log = LogWriter::start(slow, |lost| format!("{lost} lost\n"), metrics.clone());
        let write = |line: &[u8]| log.make_writer().write_all(line).unwrap();
        write(b"first\n");
        begun.recv().unwrap();
        let long = vec![b'x'; PENDING_BYTES_MAX / 2 + 1];
        for _ in 0..3 {
            // Nobody reads, and nobody waits.
            write(&long);
        }
        assert_eq!(metrics.tollgate.log_lines_dropped_total.get(), 2);
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(read.recv().unwrap(), b"first\n");
        assert!(read.recv().unwrap().ends_with(b"x2 lost\n"));
        log.flush(Duration::from_secs(10));
        assert!(log.0.lock().lines.is_empty());
    }
}
