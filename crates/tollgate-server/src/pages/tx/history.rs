//! The history of a transaction, change by change.

use std::time::Duration;

use serde_json::Value;
use tollgate_api::{HistoryEntry, StateName, parse_time};

use super::super::format::{Badge, age};
use super::super::layout::short_node;
use super::TEXT_CHARS_MAX;

/// A change of the transaction.
pub(super) struct EventRow {
    pub(super) time: String,
    pub(super) after: Option<String>,
    pub(super) title: String,
    pub(super) badge: Badge,
    pub(super) state: String,
    pub(super) moved: bool,
    pub(super) node: String,
    pub(super) token: u64,
    pub(super) detail: Vec<Detail>,
}

/// A detail of a change: a name, which may be empty, and a text.
pub(crate) struct Detail {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Detail {
    /// The parts of a JSON object, or the text as it is.
    pub(crate) fn of(detail: Option<&str>) -> Vec<Self> {
        let Some(detail) = detail else { return Vec::new() };
        let cut = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        match serde_json::from_str::<Value>(detail) {
            Ok(Value::Object(parts)) => {
                let shown = parts.into_iter().filter(|(_, value)| !value.is_null());
                let part = |(name, value): (String, Value)| {
                    let text = match value {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    Self { name: spaced(&name), text: cut(&text) }
                };
                shown.map(part).collect()
            }
            Ok(_) | Err(_) => vec![Self { name: String::new(), text: cut(detail) }],
        }
    }
}

/// `maxFeePerGas` and `max_fee_per_gas` as words.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        match c {
            '_' => words.push(' '),
            c if c.is_ascii_uppercase() => {
                words.push(' ');
                words.push(c.to_ascii_lowercase());
            }
            c => words.push(c),
        }
    }
    words
}

pub(super) fn events(history: Vec<HistoryEntry>) -> Vec<EventRow> {
    let mut before: Option<String> = None;
    let row = |entry: HistoryEntry| {
        let StateName { state, sub_state } = &entry.to;
        let name = entry.to.to_string();
        let time = parse_time(&entry.time);
        let earlier = before.as_deref().and_then(parse_time);
        let after = time.zip(earlier).map(|(time, earlier)| time.since(earlier));
        before = Some(entry.time.clone());
        EventRow {
            after: after.filter(|after| *after >= Duration::from_secs(1)).map(age),
            title: title(&entry.event),
            badge: Badge::of_state(state, sub_state.as_deref()),
            moved: entry.from.as_ref().is_none_or(|from| from.to_string() != name),
            state: name,
            node: short_node(&entry.node),
            token: entry.fencing_token,
            detail: Detail::of(entry.detail.as_deref()),
            time: entry.time,
        }
    };
    history.into_iter().map(row).collect()
}

/// An event in words.
fn title(event: &str) -> String {
    let words = match event {
        "created" | "accepted" => "Accepted",
        "slot_allocated" => "Nonce assigned, first attempt signed",
        "node_accepted" => "A node accepted it",
        "answer_unclear" => "Sent, with an unclear answer",
        "funds_missing" => "Sent, and the balance does not cover it",
        "resent" => "Sent again",
        "mined" => "Included in a block",
        "orphaned" => "Its block left the chain",
        "finalised" => "Final",
        "gave_up" => "Marked stuck",
        "retried" => "No longer stuck",
        "slot_taken" => "Another transaction used its nonce",
        "slot_recycled" => "Its nonce was freed",
        "withdrawn" => "Withdrawn before it had a nonce",
        "held" => "Held",
        "unheld" => "No longer held",
        "refused" => "Refused",
        other => return sentence(&other.replace('_', " ")),
    };
    words.to_owned()
}

/// Words that begin with a capital letter.
pub(super) fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_of_an_event_is_shown_part_by_part_and_other_text_as_it_is() {
        let parts = Detail::of(Some(r#"{"maxFeePerGas":"5","reason":"<b>","left_out":null}"#));
        let told: Vec<_> = parts.iter().map(|it| (it.name.as_str(), it.text.as_str())).collect();
        assert_eq!(told, [("max fee per gas", "5"), ("reason", "<b>")]);
        let text = Detail::of(Some("block 7"));
        assert_eq!((text[0].name.as_str(), text[0].text.as_str()), ("", "block 7"));
        assert!(Detail::of(None).is_empty());
    }

    #[test]
    fn event_without_words_of_its_own_is_written_as_words() {
        assert_eq!(title("policy_asked"), "Policy asked");
        assert_eq!(title("mined"), "Included in a block");
    }
}
