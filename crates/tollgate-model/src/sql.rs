//! Shared by the SQL stores: queries by name, and the numbers that columns hold for enums.
//!
//! A store keeps its queries in a few files, one for each area. Each query begins with a line
//! `-- name: …` and a line that says what it promises. [`queries!`](crate::queries) makes a constant
//! of each; a name that is missing, or that is in a file and not declared, does not compile.

pub mod row;

use std::ops::RangeInclusive;

use crate::nonce::{Mode, SubmitterStatus};
use crate::port::{AttemptKind, Evidence, ListFilter, ReservationState, Schedule, StateFilter};
use crate::state::TxState;

/// The start of the first line of a query.
const HEADER: &str = "-- name: ";

/// The codes of states in which a transaction is finished.
pub const FINAL_STATES: RangeInclusive<i16> = 40..=59;
/// The lowest code of a state in which a finished transaction failed.
pub const FAILED_STATES_FROM: i16 = 50;

/// Replacements for the texts of queries, by name. Tests plant mistakes with them; empty otherwise.
pub type Overrides = &'static [(&'static str, &'static str)];

/// A query of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    name: &'static str,
    text: &'static str,
}

impl Query {
    /// The name in its header.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The query with its header and contract, which servers show beside a running statement.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// The text that is sent: its own, unless a test has replaced it.
    pub fn text_with(self, overrides: Overrides) -> &'static str {
        let replaced = overrides.iter().find(|(name, _)| *name == self.name);
        replaced.map_or(self.text, |(_, text)| text)
    }
}

/// The query of a file whose name is `constant` in lower case. Meant for constants: without such a
/// query, or with two, it panics.
pub const fn query(file: &'static str, constant: &str) -> Query {
    let mut found = None;
    let mut rest = next(file);
    while let Some((query, after)) = rest {
        if query.name.eq_ignore_ascii_case(constant) {
            assert!(found.is_none(), "two queries have this name");
            found = Some(query);
        }
        rest = next(after);
    }
    match found {
        Some(query) => query,
        None => panic!("no query has this name"),
    }
}

/// The number of queries in a file.
pub const fn count(file: &'static str) -> usize {
    let mut count = 0;
    let mut rest = next(file);
    while let Some((_, after)) = rest {
        count += 1;
        rest = next(after);
    }
    count
}

/// The queries of a file, in its order.
pub fn all(file: &'static str) -> impl Iterator<Item = Query> {
    let mut rest = file;
    std::iter::from_fn(move || {
        let (query, after) = next(rest)?;
        rest = after;
        Some(query)
    })
}

/// The first query of a text, and what follows it.
const fn next(text: &'static str) -> Option<(Query, &'static str)> {
    let Some(start) = header(text, 0) else { return None };
    let (_, text) = text.split_at(start);
    let end = match header(text, HEADER.len()) {
        Some(end) => end,
        None => text.len(),
    };
    let (text, after) = text.split_at(end);
    let (_, named) = text.split_at(HEADER.len());
    let mut length = 0;
    while length < named.len() && named.as_bytes()[length] != b'\n' {
        length += 1;
    }
    let (name, _) = named.split_at(length);
    Some((Query { name, text: text.trim_ascii_end() }, after))
}

/// The start of the next line that is a header.
const fn header(text: &str, from: usize) -> Option<usize> {
    let (bytes, header) = (text.as_bytes(), HEADER.as_bytes());
    let mut at = from;
    while at + header.len() <= bytes.len() {
        let mut same = 0;
        while same < header.len() && bytes[at + same] == header[same] {
            same += 1;
        }
        if same == header.len() && (at == 0 || bytes[at - 1] == b'\n') {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Declares the constants of all queries under `queries/`, by file.
#[macro_export]
macro_rules! queries {
    ($($file:literal: $($constant:ident),+;)+) => {
        $($(
            pub(crate) const $constant: $crate::sql::Query =
                $crate::sql::query($crate::query_file!($file), stringify!($constant));
        )+
        const _: () = assert!(
            $crate::sql::count($crate::query_file!($file)) == [$(stringify!($constant)),+].len(),
            concat!($file, ".sql holds a query that is not declared"),
        );)+

        /// Every query with the name of its file, for the tests that prepare and explain them.
        pub fn all() -> Vec<(&'static str, $crate::sql::Query)> {
            let mut all = Vec::new();
            $(all.extend($crate::sql::all($crate::query_file!($file)).map(|query| ($file, query)));)+
            all
        }
    };
}

/// The text of a file of queries of the crate that is being built.
#[doc(hidden)]
#[macro_export]
macro_rules! query_file {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $file, ".sql"))
    };
}

/// The query for a page of transactions and the codes of the states that it takes, or `None` if nothing can
/// pass the filter. Of the three queries one finds any state, one open states alone and one failed states
/// alone; the last two read no other finished rows.
pub fn page_query(
    filter: &ListFilter,
    [any, open, failed]: [Query; 3],
) -> Option<(Query, Option<Vec<i16>>)> {
    if filter.excludes_everything() {
        return None;
    }
    let StateFilter::Of(states) = &filter.states else { return Some((any, None)) };
    let query = if !states.iter().any(|state| state.is_final()) {
        open
    } else if states.iter().all(|state| matches!(state, TxState::Failed(_))) {
        failed
    } else {
        any
    };
    Some((query, Some(states.iter().map(|state| state.code()).collect())))
}

/// Every word that may stand in a comment behind a number of a query (`state = 3 /* RECYCLABLE */`),
/// with the number that it stands for.
pub fn codes() -> Vec<(String, i16)> {
    let word = |word: &str, code: i16| (word.to_owned(), code);
    let state = |state: TxState| match state.sub_name() {
        Some(sub) => (format!("{}_{sub}", state.name()), state.code()),
        None => word(state.name(), state.code()),
    };
    let reservation = |state: ReservationState| {
        let name = match state {
            ReservationState::Reserved => "RESERVED",
            ReservationState::Used => "USED",
            ReservationState::Recyclable => "RECYCLABLE",
        };
        word(name, state.code())
    };
    let mut codes: Vec<_> = TxState::ALL.into_iter().map(state).collect();
    codes.extend(ReservationState::ALL.into_iter().map(reservation));
    codes.extend(SubmitterStatus::ALL.map(|status| word(status.name(), status.code())));
    codes.extend(Mode::ALL.map(|mode| word(mode.name(), mode.code())));
    codes.extend(AttemptKind::ALL.map(|kind| word(kind.name(), kind.code())));
    codes.extend([
        word("FIRST_FINAL", *FINAL_STATES.start()),
        word("LAST_FINAL", *FINAL_STATES.end()),
        word("FIRST_FAILED", FAILED_STATES_FROM),
        word("EVIDENCE_KEEP", Evidence::Keep.code()),
        word("EVIDENCE_SET", Evidence::SET_CODE),
        word("SCHEDULE_KEEP", Schedule::Keep.code()),
        word("SCHEDULE_IN", Schedule::In(std::time::Duration::ZERO).code()),
    ]);
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Failed, Queued};

    const FILE: &str = "-- What the file is for.\n\n-- name: one\n-- One.\nselect 1\n\n-- name: two\n\
                        -- Two, with -- name: inside.\nselect 2\n";

    #[test]
    fn a_query_is_found_by_name_with_its_header_and_without_its_neighbours() {
        const ONE: Query = query(FILE, "ONE");
        assert_eq!((ONE.name(), ONE.text()), ("one", "-- name: one\n-- One.\nselect 1"));
        assert_eq!(query(FILE, "TWO").text().lines().last(), Some("select 2"));
        assert_eq!(all(FILE).map(Query::name).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(count(FILE), 2);
    }

    #[test]
    #[should_panic(expected = "no query has this name")]
    fn a_name_that_no_query_has_is_an_error() {
        query(FILE, "THREE");
    }

    #[test]
    fn an_override_replaces_the_query_of_its_name_alone() {
        let overrides: Overrides = &[("two", "select 0")];
        assert_eq!(query(FILE, "TWO").text_with(overrides), "select 0");
        assert_eq!(query(FILE, "ONE").text_with(overrides), query(FILE, "ONE").text());
    }

    #[test]
    fn open_and_failed_states_have_pages_of_their_own() {
        const THREE: &str = "-- name: any\n-- name: open\n-- name: failed\n";
        let pages = ["any", "open", "failed"].map(|name| query(THREE, name));
        let waiting = TxState::Queued(Queued::Waiting);
        let reverted = TxState::Failed(Failed::Reverted);
        for (states, expected) in [
            (vec![], None),
            (vec![waiting], Some("open")),
            (vec![reverted], Some("failed")),
            (vec![TxState::Confirmed], Some("any")),
            (vec![waiting, reverted], Some("any")),
        ] {
            let codes = states.iter().map(|state| state.code()).collect();
            let filter = ListFilter { states: StateFilter::Of(states), ..Default::default() };
            let found = page_query(&filter, pages);
            let found = found.map(|(query, codes)| (query.name(), codes));
            assert_eq!(found, expected.map(|name| (name, Some(codes))));
        }
    }

    #[test]
    fn final_and_failed_states_are_those_of_the_code_ranges() {
        for state in TxState::ALL {
            assert_eq!(FINAL_STATES.contains(&state.code()), state.is_final(), "{state:?}");
            let failed = state.is_final() && state.code() >= FAILED_STATES_FROM;
            assert_eq!(failed, matches!(state, TxState::Failed(_)), "{state:?}");
        }
    }
}
