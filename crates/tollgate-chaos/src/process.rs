//! A node's process: started, signalled, waited for. Its log goes to a file that outlives it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

/// Lines of a log that are worth showing.
const LAST_LINES: usize = 3;

/// A running process. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

/// The end of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None if a signal ended it.
    pub(crate) code: Option<i32>,
    /// The last that it said.
    pub(crate) words: String,
}

impl Process {
    /// Starts it; what it says is added to the log.
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let out = File::options().append(true).create(true).open(log).unwrap();
        command.stdout(out.try_clone().unwrap()).stderr(out);
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        Self { child, log: log.to_owned() }
    }

    /// Sends it a signal; one that has ended hears nothing.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(id) = self.child.id() else { return };
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        let _ = kill_process(pid, signal);
    }

    /// Its end, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().unwrap()?;
        Some(Ended { code: status.code(), words: self.last_words() })
    }

    /// Waits for its end; none if it takes longer.
    pub(crate) async fn end(&mut self, limit: Duration) -> Option<Ended> {
        let status = tokio::time::timeout(limit, self.child.wait()).await.ok()?.unwrap();
        Some(Ended { code: status.code(), words: self.last_words() })
    }

    /// Ends it without a chance to say goodbye.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ")
    }
}
