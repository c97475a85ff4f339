//! `tollgate retention`: removes finished transactions once, without a node.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tokio::sync::watch;
use tollgate_model::NodeId;
use tollgate_model::port::NoCheckpoints;
use uuid::Uuid;

use super::node::stop_signal;
use super::{log, runtime};
use crate::cli::output::outln;
use crate::config::{DatabaseFlags, LogFormat, Purpose, load};
use crate::database::Database;
use crate::failure::Failure;
use crate::retention::{Remover, RetentionOptions};

#[derive(Args)]
pub(super) struct RetentionArgs {
    #[command(subcommand)]
    command: RetentionCommand,
}

#[derive(Subcommand)]
enum RetentionCommand {
    /// Remove the transactions that the settings of `retention` say, as a node does in the background.
    Run(RunArgs),
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// Count what would be removed, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: RetentionArgs) -> Result<ExitCode, Failure> {
    let RetentionCommand::Run(RunArgs { flags, dry_run }) = args.command;
    let settings = load(flags.into_flags(), Purpose::Database)?.settings;
    log(LogFormat::Pretty, "warn");
    let Some(options) = RetentionOptions::new(&settings.retention)? else {
        return Err("retention.finished_after is not set: nothing is removed".into());
    };
    if !dry_run {
        options.check_archive()?;
    }
    runtime()?.block_on(async {
        let (database, wait) = (Database::new(&settings.database), settings.startup.wait);
        database.must_exist()?;
        let checkpoints = Arc::new(NoCheckpoints);
        let store = database.retry(wait, || database.try_open(checkpoints.clone())).await?;
        let node = NodeId::new(&settings.node.node_name.0, Uuid::now_v7())?;
        let (stop, stopped) = watch::channel(false);
        let interrupted = stop_signal();
        tokio::spawn(async move {
            interrupted.await;
            stop.send_replace(true);
        });
        let remover = Remover { store, node, options, checkpoints, stop: stopped };
        let report = if dry_run { remover.dry_run().await? } else { remover.pass().await? };
        if report.is_elsewhere {
            return Err("a node removes finished transactions at present".into());
        }
        let would = if dry_run { "would be " } else { "" };
        outln!("{} transactions {would}removed", report.removed);
        outln!("{} stay, as the last of their account", report.kept);
        if !dry_run {
            outln!("{} request ids forgotten", report.forgotten);
        }
        Ok(ExitCode::SUCCESS)
    })
}
