//! `tollgate pool`: lists the account pools of a chain and changes them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_api::{NewPool, Pool, PoolPage, path};

use super::remote::{self, Answer, Failed, Remote, RemoteArgs};
use super::table::Table;
use crate::cli::output::outln;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct PoolArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(Subcommand)]
enum PoolCommand {
    /// List the pools.
    List(ListArgs),
    /// Show the members of a pool, with their open transactions.
    Show(NameArgs),
    /// Create a pool, or replace all of its members.
    Set(SetArgs),
    /// Remove a pool; its accounts stay.
    Remove(NameArgs),
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

#[derive(Args)]
struct NameArgs {
    /// Name of the pool.
    name: String,
}

#[derive(Args)]
struct SetArgs {
    /// Name of the pool.
    name: String,
    /// Addresses of all members.
    #[arg(required = true)]
    members: Vec<String>,
}

pub(super) fn run(args: PoolArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| match args.command {
        PoolCommand::List(args) => list(remote, args).await,
        PoolCommand::Show(args) => {
            let shown = remote.get(&path::pool(&args.name)).await?;
            show(remote, &shown)
        }
        PoolCommand::Set(SetArgs { name, members }) => {
            let shown = remote.put(&path::pool(&name), &NewPool { members, reason: None }).await?;
            show(remote, &shown)
        }
        PoolCommand::Remove(args) => {
            remote.delete(&path::pool(&args.name)).await?;
            outln!("removed {}", args.name);
            Ok(())
        }
    })
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Failed> {
    let params = [("limit", Some(args.limit.to_string())), ("cursor", args.cursor)];
    let page = remote.get(&path::with_query(path::POOLS, &params)).await?;
    remote.print(&page, |page: &PoolPage| {
        let mut table = Table::new(["POOL", "MEMBERS"]);
        for pool in &page.items {
            table.row([pool.name.clone(), pool.members.len().to_string()]);
        }
        table.cuts(&["POOL"]).wide(remote.wide).print_page(page.next.as_deref())
    })
}

fn show(remote: &Remote, shown: &Answer<Pool>) -> Result<(), Failed> {
    remote.print(shown, |pool| {
        let mut table = Table::new(["MEMBER", "AVAILABILITY", "OPEN"]);
        for member in &pool.members {
            let (availability, open) = (member.availability.to_string(), member.open.to_string());
            table.row([member.address.clone(), availability, open]);
        }
        table.print_page(None)
    })
}
