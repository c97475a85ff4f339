//! `tollgate completions`: prints the feed of completions, one line each.

use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_api::{Completion, path};
use unicode_width::UnicodeWidthStr;

use super::remote::{self, Failed, RemoteArgs, print_line};
use super::table::{WIDTH, cell, clean, cut, without_middle};
use super::units::{clock, to_the_second};
use crate::cli::output::errln;
use crate::failure::Failure;

/// Rows in a page.
const PAGE: usize = 500;
/// The wait of one poll.
const WAIT: &str = "30s";

#[derive(Args)]
pub(super) struct CompletionsArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// The last number that was seen; the feed goes on after it. Without it, from the oldest entry on.
    #[arg(long)]
    after: Option<u64>,
    /// Show transactions that became stuck, or ceased to be, as well.
    #[arg(long)]
    stuck: bool,
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
    let CompletionsArgs { remote, after: asked, stuck, follow } = args;
    remote::run(remote, async |remote| {
        let page_after = |after: u64, wait: Option<&str>| {
            let wait = wait.map(str::to_owned);
            let after = ("after", Some(after.to_string()));
            let limit = ("limit", Some(PAGE.to_string()));
            path::with_query(
                path::COMPLETIONS,
                &[after, limit, ("wait", wait), ("kind", stuck.then(|| "all".to_owned()))],
            )
        };
        // The first page without retries: a node that is not there is reported at once.
        let mut after = asked.unwrap_or(0);
        let first = remote.get::<Page>(&page_after(after, None)).await;
        let mut page = match first {
            Err(Failed::Refused(refusal)) if asked.is_none() && refusal.oldest().is_some() => {
                let oldest = refusal.oldest().unwrap_or(1);
                errln!("tollgate: the entries before {oldest} were removed");
                after = oldest.saturating_sub(1);
                remote.get::<Page>(&page_after(after, None)).await?.value
            }
            first => first?.value,
        };
        loop {
            for item in &page.items {
                match remote.json {
                    true => print_line(item.get())?,
                    false => print_line(&line(item, remote.wide))?,
                }
            }
            after = page.next;
            if !follow && page.items.len() < PAGE {
                return Ok(());
            }
            let wait = follow.then_some(WAIT);
            page = remote.get_patiently(&page_after(after, wait)).await?.value;
        }
    })
}

/// A line of at most 80 columns, or everything.
fn line(item: &RawValue, is_wide: bool) -> String {
    let Ok(item) = serde_json::from_str::<Completion>(item.get()) else {
        return clean(item.get());
    };
    let (state, request) = (item.state_name().to_string(), cell(item.request_id.as_ref()));
    if is_wide {
        let time = to_the_second(&item.time);
        return clean(&format!("{:<8}  {time}  {state:<24}  {}  {request}", item.seq, item.tx_id));
    }
    let time = clock(&item.time);
    let time = time.split('.').next().unwrap_or_default();
    let begin = format!("{:<6}  {time}  {state:<22}  {}  ", item.seq, without_middle(&item.tx_id));
    let room = WIDTH.saturating_sub(begin.width());
    clean(&(begin + &cut(&request, room.max(8))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_fits_a_terminal_unless_it_is_wanted_wide() {
        let item = serde_json::json!({
            "seq": 123_456, "kind": "final", "time": "2026-11-19T09:30:00.123456Z", "chainId": 1,
            "txId": "0198c0de-7a11-7000-8000-00000000cafe", "requestId": "提币-2026-11-19-".repeat(3),
            "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "state": "FAILED_FINAL", "subState": "CANCELLED", "txHash": null, "nonce": null, "result": null,
        });
        let item = RawValue::from_string(item.to_string()).unwrap();
        let shown = line(&item, false);
        assert!(shown.width() <= WIDTH, "{} columns: {shown}", shown.width());
        assert!(shown.starts_with("123456  09:30:00  FAILED_FINAL/CANCELLED  0198c0de…cafe  提币"));
        assert!(line(&item, true).contains("0198c0de-7a11-7000-8000-00000000cafe"), "{shown}");
    }
}
