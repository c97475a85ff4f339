//! A node in a process of its own, so that it can be stopped and killed as a whole.
//!
//! The program `store-child` opens the fixture's database, takes a lease, and does what its
//! [`ChildScenario`] says, one line of output for each step; at its stop it waits for a line of input.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tollgate_model::TxId;

use crate::store_fixture::StoreFixture;
use crate::wait::within;

/// First argument: the database is PostgreSQL; then its URL and the idle limit in milliseconds.
pub const POSTGRES: &str = "postgres";
/// First argument: the database is SQLite; then its file.
pub const SQLITE: &str = "sqlite";

/// The line that says that the child has reached its stop.
pub const STOPPED: &str = "stopped";
/// The last line.
pub const DONE: &str = "done";

/// The place where a child stops and waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildScenario {
    /// In mid-transaction: its first batch is written and not committed.
    MidBatch,
    /// Between its first batch, which is committed, and everything that it tries next.
    BetweenBatches,
}

impl ChildScenario {
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::MidBatch, Self::BetweenBatches];
        all.into_iter().find(|scenario| format!("{scenario:?}") == name)
    }
}

/// A running child; killed when it is dropped.
pub struct StoreChild {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl StoreChild {
    /// Starts it for the `n`th submitter, which must be registered. If it falls silent inside a
    /// transaction, a server ends it after `idle_limit`.
    pub fn start(
        fixture: &dyn StoreFixture,
        n: u64,
        scenario: ChildScenario,
        idle_limit: Duration,
    ) -> Self {
        let mut command: Command = fixture.child(idle_limit);
        command.args([format!("{scenario:?}"), n.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process =
            tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, input, output }
    }

    pub async fn line(&mut self) -> String {
        let line = within("a line of the child", self.output.next_line()).await.unwrap();
        line.expect("the child says more before it ends")
    }

    /// The rest of the next line, which must begin with a heading.
    pub async fn says(&mut self, heading: &str) -> String {
        let line = self.line().await;
        let rest = line.strip_prefix(heading).map(str::trim);
        rest.unwrap_or_else(|| panic!("the child said {line:?} instead of {heading:?}")).to_owned()
    }

    pub async fn tx_id(&mut self) -> TxId {
        self.says("tx").await.parse().unwrap()
    }

    pub async fn go_on(&mut self) {
        self.input.write_all(b"go on\n").await.unwrap();
        self.input.flush().await.unwrap();
    }

    /// Stops every thread of it, wherever it is (SIGSTOP).
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it wake up (SIGCONT).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it without a chance to say goodbye (SIGKILL).
    pub async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = self.process.id().expect("the child runs");
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}
