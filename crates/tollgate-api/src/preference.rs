//! The preference `wait` of a request (RFC 7240): how long the answer may be held back, and for what.

use std::fmt;
use std::time::Duration;

use tollgate_model::{Tracking, TxState};

use crate::limit::WAIT_MAX;

/// The state that a request waits for. A transaction that went further has reached it as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitUntil {
    /// A node of the chain has the transaction.
    Submitted,
    /// The transaction has a receipt.
    Mined,
    /// CONFIRMED or FAILED_FINAL.
    #[default]
    Final,
}

impl WaitUntil {
    /// All of them, first to last.
    pub const ALL: [Self; 3] = [Self::Submitted, Self::Mined, Self::Final];

    /// The name in a header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Mined => "mined",
            Self::Final => "final",
        }
    }

    /// Returns whether a transaction in a state has come this far. STUCK is not an end.
    pub fn is_reached(self, state: TxState) -> bool {
        let by_tracking = match self {
            Self::Submitted => matches!(state, TxState::Tracking(_)),
            Self::Mined => state == TxState::Tracking(Tracking::Mined),
            Self::Final => false,
        };
        by_tracking || state.is_final()
    }
}

/// `Prefer: wait=30, until=mined`. Shown as the header `Preference-Applied` repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitPreference {
    /// The longest wait, in seconds.
    pub seconds: u64,
    /// The state that ends it.
    pub until: WaitUntil,
    names_until: bool,
}

impl WaitPreference {
    /// The wait that `Prefer` headers ask for; `None` if they ask for none. As RFC 7240 says, the first
    /// instance of a preference counts, and one that can't be read or is not known is ignored. A longer
    /// wait than [`WAIT_MAX`] is cut.
    pub fn read<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let (mut wait, mut until) = (None, None);
        for header in headers {
            for preference in split(header, ',') {
                // What follows a semicolon are parameters; these preferences have none.
                let named = split(preference, ';').next().unwrap_or_default();
                let (name, value) = named.split_once('=').unwrap_or((named, ""));
                let (name, value) = (name.trim(), unquoted(value.trim()));
                if name.eq_ignore_ascii_case("wait") {
                    wait.get_or_insert(value);
                } else if name.eq_ignore_ascii_case("until") {
                    until.get_or_insert(value);
                }
            }
        }
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let wait = wait.filter(is_number)?;
        // More digits than fit are a long wait.
        let seconds = wait.parse::<u64>().unwrap_or(u64::MAX).min(WAIT_MAX.as_secs());
        let named = until.and_then(|name| WaitUntil::ALL.into_iter().find(|it| it.name() == name));
        Some(Self { seconds, until: named.unwrap_or_default(), names_until: named.is_some() })
    }

    /// The longest wait.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

impl fmt::Display for WaitPreference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wait={}", self.seconds)?;
        if self.names_until {
            write!(f, ", until={}", self.until.name())?;
        }
        Ok(())
    }
}

/// The parts of a header between separators that are in no quoted text.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match char {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => {}
        }
        char == separator && !is_quoted
    })
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use tollgate_model::{Failed, Queued, StuckReason};

    use super::*;

    fn applied(headers: &[&str]) -> Option<String> {
        WaitPreference::read(headers.iter().copied()).map(|wait| wait.to_string())
    }

    #[test]
    fn wait_is_found_among_other_preferences_and_in_any_header() {
        for headers in [
            &["wait=30"][..],
            &["respond-async, wait=30"],
            &["respond-async", "Wait = 30 ; unknown=1"],
            &["foo=\"a, wait=5; \\\" wait=6\", wait=\"30\""],
            &["wait=30, wait=5", "wait=6"],
            &["wait=30, until=never"],
        ] {
            assert_eq!(applied(headers).as_deref(), Some("wait=30"), "{headers:?}");
        }
    }

    #[test]
    fn wait_that_can_not_be_read_is_ignored() {
        for header in ["", "wait", "wait=", "wait=soon", "wait=-1", "wait=1.5", "await=3", "=5"] {
            assert_eq!(applied(&[header]), None, "{header:?}");
        }
        assert_eq!(applied(&["wait=x, wait=30"]), None, "the first instance counts");
    }

    #[test]
    fn wait_beyond_the_longest_is_cut_and_until_is_repeated_if_it_is_known() {
        for long in ["wait=61", "wait=99999999999999999999999"] {
            assert_eq!(applied(&[long]).as_deref(), Some("wait=60"));
        }
        let both = applied(&["until=mined", "wait=5"]);
        assert_eq!(both.as_deref(), Some("wait=5, until=mined"));
    }

    #[test]
    fn states_further_on_have_reached_what_is_waited_for_and_stuck_has_not() {
        let reached = |state| WaitUntil::ALL.map(|until| until.is_reached(state));
        for (state, expected) in [
            (TxState::Queued(Queued::Waiting), [false, false, false]),
            (TxState::Tracking(Tracking::Pending), [true, false, false]),
            (TxState::Tracking(Tracking::Mined), [true, true, false]),
            (TxState::Confirmed, [true, true, true]),
            (TxState::Failed(Failed::Cancelled), [true, true, true]),
            (TxState::Stuck(StuckReason::FeeCap), [false, false, false]),
        ] {
            assert_eq!(reached(state), expected, "{state:?}");
        }
    }
}
