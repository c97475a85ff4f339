//! `tollgate backup` and `tollgate restore` (docs/operations/backup.md).

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::HumanBytes;
use tollgate_api::{format_time, parse_time};
use tollgate_model::port::{NoCheckpoints, RestoreOutcome, RestoreSummary};
use tollgate_model::{NodeId, Text, Timestamp};
use uuid::Uuid;

use super::runtime;
use crate::cli::output::{err, errln, outln};
use crate::config::{DatabaseFlags, Purpose, load};
use crate::database::Database;
use crate::failure::Failure;

/// The age of a heartbeat up to which a node counts as alive. More than a node that lives is ever silent.
const LIVE_WITHIN: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// File to create. One that exists is not overwritten.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

#[derive(Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// SQLite: the backup, as `tollgate backup` made it. The database must not exist yet.
    #[arg(long, value_name = "FILE", required_unless_present = "backup_time")]
    from: Option<PathBuf>,
    /// PostgreSQL: the time that the server's own tools have restored the database to.
    #[arg(long, value_name = "TIME", conflicts_with = "from", value_parser = time)]
    backup_time: Option<Timestamp>,
}

pub(super) fn backup(args: BackupArgs) -> Result<ExitCode, Failure> {
    let settings = load(args.flags.into_flags(), Purpose::Database)?.settings;
    let database = Database::new(&settings.database);
    let Some(options) = database.sqlite() else {
        return Err("backup: copies SQLite databases only; PostgreSQL has tools of its own \
                    (docs/operations/backup.md)"
            .into());
    };
    let shows_progress = std::io::stderr().is_terminal();
    let report = tollgate_sqlite::backup(options, &args.to, |written, of| {
        if shows_progress {
            err!("\r{} of about {} ", HumanBytes(written), HumanBytes(of));
        }
    })?;
    if shows_progress {
        errln!();
    }
    outln!("backup        {}", args.to.display());
    outln!("size          {}", HumanBytes(report.bytes));
    outln!("schema        version {}", report.schema_version);
    outln!("accounts      {}", report.accounts);
    outln!("transactions  {}", report.transactions);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restore(args: RestoreArgs) -> Result<ExitCode, Failure> {
    let settings = load(args.flags.into_flags(), Purpose::Database)?.settings;
    let database = Database::new(&settings.database);
    let by = NodeId::new("restore", Uuid::now_v7())?;
    let (reason, summary) = match (database.sqlite(), args.from, args.backup_time) {
        (Some(options), Some(from), _) => {
            let report = tollgate_sqlite::restore(&from, options, &by, reason)?;
            (report.reason, report.summary)
        }
        (Some(_), None, _) => {
            return Err("restore: --backup-time is for PostgreSQL; give the file: --from".into());
        }
        (None, _, Some(time)) => {
            let reason = reason(time);
            let summary = mark(&database, settings.startup.wait, &by, &reason)?;
            (reason, summary)
        }
        (None, _, None) => {
            return Err(
                "restore: --from is for SQLite. Restore a PostgreSQL database with its own \
                        tools, then run this with --backup-time (docs/operations/backup.md)"
                    .into(),
            );
        }
    };
    let RestoreSummary { accounts, queued, in_flight } = summary;
    outln!("accounts   {accounts}, all of them held: {reason}");
    outln!("in flight  {in_flight} transactions: they are sent again and tracked");
    outln!("queued     {queued} transactions: each may have been carried out after the backup");
    outln!("Compare every account with the chain before you resume it: docs/operations/backup.md");
    Ok(ExitCode::SUCCESS)
}

/// Marks a database that its server's tools have restored.
fn mark(
    database: &Database,
    wait: Duration,
    by: &NodeId,
    reason: &Text<500>,
) -> Result<RestoreSummary, Failure> {
    let outcome = runtime()?.block_on(async {
        let checkpoints = Arc::new(NoCheckpoints);
        let store = database.retry(wait, || database.try_open(checkpoints.clone())).await?;
        database.retry(wait, || store.mark_restored(by, reason, LIVE_WITHIN)).await
    });
    match outcome? {
        RestoreOutcome::Marked(summary) => Ok(summary),
        RestoreOutcome::NodesAlive(nodes) => Err(format!(
            "restore: {nodes} nodes had a heartbeat on this database within {} s: stop them first",
            LIVE_WITHIN.as_secs()
        )
        .into()),
    }
}

fn reason(time: Timestamp) -> Text<500> {
    Text::lossy(&format!("restored from a backup of {}", format_time(time)))
}

fn time(text: &str) -> Result<Timestamp, String> {
    parse_time(text).ok_or_else(|| "must be a time like 2026-11-18T09:30:00Z".to_owned())
}
