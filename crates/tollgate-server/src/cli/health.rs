//! `tollgate health`: asks a node whether it is ready, for supervisors without an HTTP client of their own.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::remote::{self, RemoteArgs, print_line};
use crate::config::duration;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct HealthArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Ask only whether the process answers, not whether it accepts work.
    #[arg(long)]
    live: bool,
    /// Longest wait for the answer.
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
}

/// Ends with 0 if the node is ready (or alive), with 1 otherwise.
pub(super) fn run(args: HealthArgs) -> Result<ExitCode, Failure> {
    let HealthArgs { remote, live, timeout } = args;
    let path = if live { "/livez" } else { "/readyz" };
    let ended = remote::run_within(remote, timeout, async |remote| {
        let answer = remote.get::<serde_json::Value>(path).await?;
        remote.print(&answer, |_| print_line(if live { "alive" } else { "ready" }))
    });
    // Supervisors know healthy and unhealthy only; Docker reserves 2.
    ended.map(|code| if code == ExitCode::SUCCESS { code } else { ExitCode::FAILURE })
}
