//! The text of a message: one template for all sinks.

use tollgate_model::port::{AlertNotice, AlertPhase};

/// The parts of the text about one notice, without characters that a chat would read as markup.
pub(crate) struct Message {
    state: String,
    name: &'static str,
    /// The subject of the alert.
    pub(crate) subject: String,
    /// The latest report's words.
    pub(crate) detail: String,
    node: String,
    times: u64,
    advice: Option<String>,
    docs: String,
}

impl Message {
    pub(crate) fn of(notice: &AlertNotice) -> Self {
        let AlertNotice { alert, phase, .. } = notice;
        let info = alert.kind.info();
        let state = match phase {
            AlertPhase::Raised => alert.level.name().to_uppercase(),
            AlertPhase::Resolved => "RESOLVED".to_owned(),
        };
        let is_raised = *phase == AlertPhase::Raised;
        Self {
            state,
            name: info.title,
            subject: inert(&alert.subject.to_string()),
            detail: inert(alert.detail.as_str()),
            node: inert(&alert.node),
            times: alert.times,
            advice: is_raised.then(|| format!("{} {}", info.meaning, info.action)),
            docs: alert.kind.docs_path(),
        }
    }

    /// One line: state, name and subject.
    pub(crate) fn title(&self) -> String {
        format!("[{}] {}: {}", self.state, self.name, self.subject)
    }

    /// The lines below it.
    pub(crate) fn body(&self) -> String {
        let mut lines = vec![self.detail.clone()];
        lines.extend(self.advice.clone());
        let times = match self.times {
            0 | 1 => String::new(),
            times => format!(", reported {times} times"),
        };
        lines.push(format!("Node {}{times}. See {}", self.node, self.docs));
        lines.retain(|line| !line.is_empty());
        lines.join("\n")
    }
}

/// Replaces what a chat reads as a mention, a link or code, and all control characters.
fn inert(text: &str) -> String {
    let replaced = |c: char| match c {
        '<' => '‹',
        '>' => '›',
        '[' => '(',
        ']' => ')',
        '`' => '\'',
        '@' => '＠',
        '*' => '∗',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(replaced).collect()
}

/// At most `max` bytes of a text, with a sign where something was cut off.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_mentions_nobody_and_shows_no_link() {
        let inert = inert("<!channel> @all [pay](http://x) `a`\n**b**\u{7}");
        assert_eq!(inert, "‹!channel› ＠all (pay)(http://x) 'a' ∗∗b∗∗ ");
    }

    #[test]
    fn shortened_text_keeps_whole_characters_within_the_limit() {
        assert_eq!(shortened("short", 5), "short");
        let long = shortened(&"余额".repeat(100), 50);
        assert!(long.len() <= 50 && long.ends_with('…'), "{long}");
    }
}
