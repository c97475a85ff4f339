//! Operator commands for nonces that the chain waits for and no transaction occupies.
//!
//! Pure functions. A cursor never goes back (I4), so an account whose cursor is far ahead of the chain is
//! healed from below: nonces are returned to the pool, a bounded range at a time, and the next
//! transactions or placeholders fill them. The store decides who owns a nonce (I3).

use thiserror::Error;

use crate::ids::Nonce;
use crate::nonce::{Mode, SubmitterStatus};
use crate::port::batch::CursorMove;
use crate::port::chain::{AccountCounts, CountSupport};
use crate::text::Text;

/// The maximum number of nonces returned in one call (I13).
pub const FILL_MAX: u64 = 1_000;
/// The maximum number of a submitter's recyclable nonces (I13).
pub const FREE_MAX: usize = 10_000;
/// The prefix of the stored reason of a recyclable nonce that a placeholder has to fill.
const PLACEHOLDER_MARK: &str = "placeholder: ";

/// The transactions that fill nonces that an operator returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FillWith {
    /// The next transactions.
    Next,
    /// Zero-value self-transfers, as soon as no transaction is queued.
    Placeholder,
}

names!(FillWith { Next => "next", Placeholder => "placeholder" });

impl FillWith {
    /// The reason that is stored with each nonce; it records what is to fill the nonce beyond the life of
    /// the process.
    pub fn stored_reason(self, reason: &str) -> Text<500> {
        match self {
            Self::Next => Text::lossy(reason.strip_prefix(PLACEHOLDER_MARK).unwrap_or(reason)),
            Self::Placeholder => Text::lossy(&format!("{PLACEHOLDER_MARK}{reason}")),
        }
    }

    /// Decodes what fills a recyclable nonce from its stored reason.
    pub fn of_stored(reason: Option<&str>) -> Self {
        let is_marked = reason.is_some_and(|reason| reason.starts_with(PLACEHOLDER_MARK));
        if is_marked { Self::Placeholder } else { Self::Next }
    }
}

/// A range of consecutive nonces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceRange {
    pub first: Nonce,
    pub last: Nonce,
}

/// The facts about a submitter whose nonces are to be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FillView {
    pub mode: Mode,
    pub status: SubmitterStatus,
    pub cursor: Nonce,
    pub counts: AccountCounts,
    /// This node has the account's key.
    pub has_key: bool,
    /// The number of recyclable nonces.
    pub free: usize,
}

/// The reason why nonces are not returned or a cursor is not moved. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoncesRefused {
    /// I12: a strict submitter's transactions get their nonces only from the cursor.
    #[error(
        "a strict submitter's nonces are not passed over, and its holes are filled by placeholders only"
    )]
    Strict,
    /// No transaction gets a nonce while the submitter accepts no work.
    #[error(
        "the account is {}, so no transaction fills the nonces: resume it, or fill with placeholders",
        .0.name()
    )]
    NotActive(SubmitterStatus),
    /// The range ends before it begins.
    #[error("the range ends at {last}, before its first nonce {first}")]
    Backward { first: Nonce, last: Nonce },
    /// I13: the range is too long for one call.
    #[error("{wanted} nonces are more than {FILL_MAX} in one call")]
    TooLong { wanted: u64 },
    /// Nonces from the cursor on were never assigned.
    #[error("the account's next nonce is {cursor}: the range must end below it")]
    AboveCursor { cursor: Nonce },
    /// There is no key to sign placeholders with.
    #[error("this node has no key to sign placeholders with")]
    NoKey,
    /// I13: the nonces returned earlier have to be filled first.
    #[error("{free} nonces are free already, and at most {FREE_MAX} may be")]
    TooManyFree { free: usize },
    /// I4: a cursor never goes back.
    #[error("the account's next nonce is {cursor} already")]
    NotForward { cursor: Nonce },
    /// No endpoint counts this far, or only one does and another contradicts it.
    #[error("{}", beyond_counts(*counted, *told))]
    BeyondCounts {
        /// The count that the endpoints agree on, pools included.
        counted: Nonce,
        /// The highest count that any endpoint reports.
        told: Nonce,
    },
}

fn beyond_counts(counted: Nonce, told: Nonce) -> String {
    if told > counted {
        format!(
            "the endpoints agree on a count of {counted}; one endpoint alone tells {told}, and no \
             second one confirms it"
        )
    } else {
        format!("no endpoint that was asked counts more than {counted}")
    }
}

/// The nonces of a range that may be returned: those that neither the chain nor a pool counts (I3).
pub fn fillable(
    view: &FillView,
    range: NonceRange,
    with: FillWith,
) -> Result<Vec<Nonce>, NoncesRefused> {
    let NonceRange { first, last } = range;
    match (with, view.mode, view.status) {
        (FillWith::Placeholder, ..) | (_, Mode::Pipelined, SubmitterStatus::Active) => {}
        (FillWith::Next, Mode::Strict, _) => return Err(NoncesRefused::Strict),
        (FillWith::Next, _, status) => return Err(NoncesRefused::NotActive(status)),
    }
    if last < first {
        return Err(NoncesRefused::Backward { first, last });
    }
    let wanted = last.get() - first.get() + 1;
    if wanted > FILL_MAX {
        return Err(NoncesRefused::TooLong { wanted });
    }
    if last >= view.cursor {
        return Err(NoncesRefused::AboveCursor { cursor: view.cursor });
    }
    if with == FillWith::Placeholder && !view.has_key {
        return Err(NoncesRefused::NoKey);
    }
    let floor = view.counts.mined.max(view.counts.pending).max(first);
    let nonces: Vec<_> =
        (floor.get()..=last.get()).map_while(|nonce| Nonce::new(nonce).ok()).collect();
    if view.free.saturating_add(nonces.len()) > FREE_MAX {
        return Err(NoncesRefused::TooManyFree { free: view.free });
    }
    Ok(nonces)
}

/// The move of a cursor that an operator vouches for (I16): forward, and at most to the agreed count. If
/// no two endpoints agree on the mined count, any endpoint's mined count will do.
pub fn advance(
    mode: Mode,
    from: Nonce,
    counts: &AccountCounts,
    to: Nonce,
) -> Result<CursorMove, NoncesRefused> {
    let is_disputed = counts.support != CountSupport::Confirmed;
    let mined = if is_disputed { counts.highest } else { counts.mined };
    let counted = counts.pending.max(mined);
    if mode == Mode::Strict {
        Err(NoncesRefused::Strict)
    } else if to <= from {
        Err(NoncesRefused::NotForward { cursor: from })
    } else if to > counted {
        Err(NoncesRefused::BeyondCounts { counted, told: counts.told.max(counted) })
    } else {
        Ok(CursorMove { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::nonce;

    /// A cursor far ahead of the chain.
    fn view() -> FillView {
        let counts = AccountCounts::confirmed(nonce(5), nonce(7));
        let (mode, status) = (Mode::Pipelined, SubmitterStatus::Active);
        FillView { mode, status, cursor: nonce(100_000), counts, has_key: true, free: 0 }
    }

    fn filled(view: &FillView, first: u64, last: u64) -> Result<Vec<u64>, NoncesRefused> {
        let range = NonceRange { first: nonce(first), last: nonce(last) };
        let nonces = fillable(view, range, FillWith::Placeholder)?;
        Ok(nonces.into_iter().map(Nonce::get).collect())
    }

    #[test]
    fn nonce_that_the_chain_or_a_pool_counts_is_not_returned() {
        assert_eq!(filled(&view(), 0, 9), Ok(vec![7, 8, 9]), "I3");
        assert_eq!(filled(&view(), 0, 6), Ok(vec![]));
        assert_eq!(filled(&view(), 20, 21), Ok(vec![20, 21]));
    }

    #[test]
    fn a_range_is_bounded_and_below_the_cursor() {
        assert_eq!(filled(&view(), 10, 1_010), Err(NoncesRefused::TooLong { wanted: 1_001 }));
        let (first, last) = (nonce(9), nonce(8));
        assert_eq!(filled(&view(), 9, 8), Err(NoncesRefused::Backward { first, last }));
        let cursor = nonce(100_000);
        let above = NoncesRefused::AboveCursor { cursor };
        assert_eq!(filled(&view(), 99_999, 100_000), Err(above));
        let full = FillView { free: FREE_MAX, ..view() };
        assert_eq!(filled(&full, 9, 9), Err(NoncesRefused::TooManyFree { free: FREE_MAX }), "I13");
    }

    #[test]
    fn strict_and_inactive_accounts_and_those_without_a_key_are_filled_in_one_way_only() {
        let range = NonceRange { first: nonce(8), last: nonce(9) };
        let by_next = |view: &FillView| fillable(view, range, FillWith::Next);
        let strict = FillView { mode: Mode::Strict, ..view() };
        assert_eq!(filled(&strict, 8, 9), Ok(vec![8, 9]), "an operator closes its hole");
        assert_eq!(by_next(&strict), Err(NoncesRefused::Strict), "I12");
        for status in [SubmitterStatus::Paused, SubmitterStatus::Protect] {
            let inactive = FillView { status, ..view() };
            assert_eq!(filled(&inactive, 8, 9), Ok(vec![8, 9]));
            assert_eq!(by_next(&inactive), Err(NoncesRefused::NotActive(status)));
        }
        let keyless = FillView { has_key: false, ..view() };
        assert_eq!(filled(&keyless, 8, 9), Err(NoncesRefused::NoKey));
        assert_eq!(by_next(&keyless).map(|all| all.len()), Ok(2));
    }

    #[test]
    fn advance_moves_a_cursor_forward_up_to_the_count_of_an_endpoint() {
        let counts =
            AccountCounts { sure: nonce(5), ..AccountCounts::confirmed(nonce(5), nonce(900)) };
        let asked = |mode, to| advance(mode, nonce(10), &counts, nonce(to));
        let step = CursorMove { from: nonce(10), to: nonce(900) };
        assert_eq!(asked(Mode::Pipelined, 900), Ok(step));
        let beyond = NoncesRefused::BeyondCounts { counted: nonce(900), told: nonce(900) };
        assert_eq!(beyond.to_string(), "no endpoint that was asked counts more than 900");
        assert_eq!(asked(Mode::Pipelined, 901), Err(beyond));
        let back = NoncesRefused::NotForward { cursor: nonce(10) };
        assert_eq!(asked(Mode::Pipelined, 10), Err(back), "I4");
        assert_eq!(asked(Mode::Strict, 11), Err(NoncesRefused::Strict), "I12");
    }

    #[test]
    fn refusal_to_advance_tells_the_agreed_count_and_what_one_endpoint_tells_alone() {
        let counts =
            AccountCounts { told: nonce(302), ..AccountCounts::confirmed(nonce(2), nonce(2)) };
        let refused = advance(Mode::Pipelined, nonce(2), &counts, nonce(302)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the endpoints agree on a count of 2; one endpoint alone tells 302, and no second one \
             confirms it"
        );
        let (support, highest) = (CountSupport::Open, nonce(302));
        let disputed = AccountCounts { support, highest, ..counts };
        let step = CursorMove { from: nonce(2), to: nonce(302) };
        assert_eq!(advance(Mode::Pipelined, nonce(2), &disputed, nonce(302)), Ok(step));
    }

    #[test]
    fn filler_of_a_nonce_is_stored_with_its_reason() {
        for with in FillWith::ALL {
            let stored = with.stored_reason("placeholder: a trick");
            assert_eq!(FillWith::of_stored(Some(stored.as_str())), with);
        }
        assert_eq!(FillWith::of_stored(None), FillWith::Next);
    }
}
