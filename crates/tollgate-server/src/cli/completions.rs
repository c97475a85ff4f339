//! `tollgate completions`: the feed of outcomes, a line for each.

use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::remote::{self, Remote, RemoteArgs, Trouble, say};
use super::table::clean;
use super::tx::show::{cell, state, to_the_second};
use crate::failure::Failure;

/// Rows in a page.
const PAGE: usize = 500;
/// How long one poll waits for news.
const WAIT: &str = "30s";

#[derive(Args)]
pub(super) struct CompletionsArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// The last number that was seen; the feed goes on behind it.
    #[arg(long, default_value_t = 0)]
    after: u64,
    /// Wait for more at the end of the feed, until interrupted.
    #[arg(long)]
    follow: bool,
}

/// A page whose items are kept as they came.
#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: u64,
}

pub(super) fn run(args: CompletionsArgs) -> Result<ExitCode, Failure> {
    let CompletionsArgs { remote, mut after, follow } = args;
    remote::run(remote, async |remote| {
        let wait = if follow { format!("&wait={WAIT}") } else { String::new() };
        let place = |after: u64, wait: &str| {
            format!("/api/v1/tx/completions?after={after}&limit={PAGE}{wait}")
        };
        // The first page without patience: a node that is not there is told at once.
        let mut said = remote.get(&place(after, "")).await?;
        loop {
            let Ok(page) = serde_json::from_str::<Page>(&said.text) else {
                return Err(Trouble::Refused(said));
            };
            for item in &page.items {
                say(&line(remote, item))?;
            }
            after = page.next;
            if !follow && page.items.len() < PAGE {
                return Ok(());
            }
            said = remote.get_patiently(&place(after, &wait)).await?;
        }
    })
}

fn line(remote: &Remote, item: &RawValue) -> String {
    if remote.json {
        return item.get().to_owned();
    }
    let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
    let time = to_the_second(item["time"].as_str().unwrap_or_default());
    clean(&format!(
        "{:<8}  {time}  {:<24}  {}  {}",
        cell(&item["seq"]),
        state(&item),
        cell(&item["txId"]),
        cell(&item["requestId"])
    ))
}
