//! Tables of documentation pages, compared with the code.

use std::fmt::Write;

use tollgate_model::transition::FinalOutcome;
use tollgate_model::{StuckReason, TxEvent, TxState, transition};

/// Checks that a page holds these generated parts, or writes them if `UPDATE_DOCS` is set.
pub(crate) fn check_page(name: &str, parts: &[(&str, String)]) {
    let path = format!("{}/../../docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let written =
        parts.iter().fold(page.clone(), |page, (name, part)| with_part(&page, name, part));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, written).unwrap();
    }
    assert_eq!(page, written, "run the test with UPDATE_DOCS=1 to update the page");
}

/// Replaces the text of a page between `<!-- name -->` and `<!-- /name -->`.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{before}{begin}{part}{end}{after}")
}

/// The moves of every state, one row for each event that moves it, with reasons folded.
fn moves() -> String {
    let mut table = "| from | event | to |\n|---|---|---|\n".to_owned();
    for state in TxState::ALL {
        for event in TxEvent::ALL {
            let Ok(to) = transition(state, event) else { continue };
            let to = if to == state { "(stays)".to_owned() } else { to.to_string() };
            let _ = writeln!(table, "| {state} | {} | {to} |", event_words(event));
        }
    }
    table
}

fn event_words(event: TxEvent) -> String {
    match event {
        TxEvent::Finalised(verdict) => {
            let verdict = match verdict {
                FinalOutcome::Executed => "executed",
                FinalOutcome::Reverted => "reverted",
                FinalOutcome::Cancelled => "cancelled",
                FinalOutcome::Replaced => "replaced",
            };
            format!("{} ({verdict})", event.name())
        }
        TxEvent::GaveUp(reason) => format!("{} ({})", event.name(), reason),
        other => other.name().to_owned(),
    }
}

#[test]
fn the_page_on_the_state_machine_has_the_moves_of_the_code() {
    check_page("state-machine", &[("moves", moves())]);
}

/// The pages that have a procedure for each reason.
const PAGES_OF_PROCEDURES: [&str; 2] = ["operations/stuck.md", "zh-CN/operations/stuck.md"];

/// The pages that have a line for each reason.
const PAGES_OF_REASONS: [&str; 2] = ["operations/on-call.md", "zh-CN/operations/on-call.md"];

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_stuck_reason_has_a_procedure_and_no_other() {
    let reasons = StuckReason::ALL.map(|reason| reason.name().to_uppercase());
    let mut expected: Vec<&str> = reasons.iter().map(String::as_str).collect();
    expected.push("PROTECT");
    for name in PAGES_OF_PROCEDURES {
        let text = page(name);
        let headings: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, expected, "docs/{name}");
    }
    for name in PAGES_OF_REASONS {
        let text = page(name);
        for reason in &reasons {
            assert!(text.contains(&format!("`{reason}`")), "docs/{name} lacks {reason}");
        }
        assert!(text.contains("PROTECT"), "docs/{name} lacks PROTECT");
    }
}
