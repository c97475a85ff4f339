//! `tollgate tx history`: the audit trail of a transaction.

use clap::Args;
use tollgate_api::{HistoryEntry, HistoryPage, path};

use crate::cli::output::errln;
use crate::cli::remote::{Answer, Failed, Remote, print_line};
use crate::cli::table::{Table, WIDTH, clean, wrapped};
use crate::cli::units::clock;

/// Before the detail of an entry.
const INDENT: &str = "    ";

#[derive(Args)]
pub(super) struct HistoryArgs {
    /// Id of the transaction.
    tx_id: String,
    /// The last number that was seen: the page goes on after it.
    #[arg(long)]
    after: Option<u32>,
    /// Maximum number of rows.
    #[arg(long, default_value_t = 100)]
    limit: u32,
}

pub(super) async fn run(remote: &mut Remote, args: HistoryArgs) -> Result<(), Failed> {
    let HistoryArgs { tx_id, after, limit } = args;
    let path = format!("{}/history", path::tx(&tx_id));
    let params = [("after", after.map(|it| it.to_string())), ("limit", Some(limit.to_string()))];
    let page: Answer<HistoryPage> = remote.get(&path::with_query(&path, &params)).await?;
    remote.print(&page, |page| {
        let next = page.next.map(|next| next.to_string());
        lines(&page.items, remote.wide).iter().try_for_each(|line| print_line(line))?;
        if let Some(next) = next {
            errln!("more with --after {next}");
        }
        Ok(())
    })
}

/// A row for each entry, and below it the detail. Wide rows hold everything.
fn lines(entries: &[HistoryEntry], is_wide: bool) -> Vec<String> {
    if is_wide {
        return wide_table(entries).lines();
    }
    let mut table = Table::new(["#", "TIME", "EVENT", "STATE", "NODE"]).cuts(&["NODE"]);
    for entry in entries {
        let node = entry.node.split('/').next().unwrap_or_default();
        table.row([
            entry.version.to_string(),
            clock(&entry.time).chars().take("HH:MM:SS".len()).collect(),
            entry.event.clone(),
            entry.to.to_string(),
            node.to_owned(),
        ]);
    }
    let mut rows = table.lines().into_iter();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, entry) in rows.zip(entries) {
        lines.push(row);
        let detail = entry.detail.as_deref().filter(|detail| !detail.is_empty());
        let detail = detail.map(|detail| wrapped(&clean(detail), WIDTH - INDENT.len()));
        lines.extend(detail.into_iter().flatten().map(|line| format!("{INDENT}{line}")));
    }
    lines
}

fn wide_table(entries: &[HistoryEntry]) -> Table {
    let head = ["#", "TIME", "EVENT", "STATE", "NODE", "TOKEN", "DETAIL"];
    let mut table = Table::new(head).wide(true);
    for entry in entries {
        table.row([
            entry.version.to_string(),
            entry.time.clone(),
            entry.event.clone(),
            entry.to.to_string(),
            entry.node.clone(),
            entry.fencing_token.to_string(),
            entry.detail.clone().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn audit_trail_with_long_names_and_chinese_reasons_fits() {
        let entry = serde_json::json!({
            "version": 17, "time": "2026-11-19T09:30:00.123456Z", "fencingToken": 123,
            "node": "tollgate-prod-eu-west-1a-7d9f/0198c0de7a11700080000000000cafe0",
            "event": "answer_unclear", "from": null, "detail": "客户要求撤销这笔提币，原因见工单".repeat(4),
            "to": {"state": "ALLOCATED", "subState": "UNKNOWN_SUBMIT_RESULT"},
        });
        let entry: HistoryEntry = serde_json::from_value(entry).unwrap();
        let narrow = lines(std::slice::from_ref(&entry), false);
        assert!(narrow.iter().all(|line| line.width() <= WIDTH), "{narrow:#?}");
        assert!(narrow[1].contains("tollgate") && narrow[2].starts_with("    客户"), "{narrow:#?}");
        let wide = lines(&[entry], true).pop().unwrap();
        assert!(wide.contains("0000cafe0") && wide.ends_with("原因见工单"), "{wide}");
    }
}
