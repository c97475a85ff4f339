//! `tollgate audit`: reads the audit log of a running node.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_api::{AuditPage, path};

use super::remote::{self, Failed, Remote, RemoteArgs};
use super::table::{Table, cell};
use super::units::to_the_second;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// List who asked for which change, newest first.
    List(ListArgs),
}

#[derive(Args)]
struct ListArgs {
    /// Maximum number of rows.
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Cursor of the next page, as the previous page gave it.
    #[arg(long)]
    cursor: Option<String>,
}

pub(super) fn run(args: AuditArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| match args.command {
        AuditCommand::List(args) => list(remote, args).await,
    })
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Failed> {
    let params = [("limit", Some(args.limit.to_string())), ("cursor", args.cursor)];
    let page = remote.get(&path::with_query(path::AUDIT, &params)).await?;
    remote.print(&page, |page: &AuditPage| {
        let mut table =
            Table::new(["TIME", "ACTION", "SUBJECT", "KEY", "AUTHOR", "ADDRESS", "REASON"])
                .cuts(&["SUBJECT", "AUTHOR", "REASON"])
                .wide(remote.wide);
        for entry in &page.items {
            table.row([
                to_the_second(&entry.time),
                entry.action.clone(),
                entry.subject.clone(),
                cell(entry.key_id.as_ref()),
                cell(Some(&entry.author).filter(|author| !author.is_empty())),
                cell(entry.address.as_ref()),
                cell(entry.reason.as_ref()),
            ]);
        }
        table.print_page(page.next.as_deref())
    })
}
