//! Changes of a submitter's mode.
//!
//! The mode belongs to the submitter: it is set when the account is first registered, and the settings of
//! a node that starts later do not change it. An operator changes it through the owner, under the fence.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::ids::Nonce;
use crate::nonce::Mode;
use crate::port::CursorMove;
use crate::reconcile::{CannotResume, ReconcileView, resume};

/// The reason why a change of mode is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CannotChangeMode {
    /// Slots opened under the rules of one mode must not be finished under those of the other.
    #[error(
        "{open} of its transactions are not final and callers hold or use {reserved} of its nonces: \
         both must be 0"
    )]
    InUse {
        /// Transactions that are not final, including queued ones.
        open: usize,
        /// Nonces that callers hold, or have used and the chain does not count yet.
        reserved: usize,
    },
    /// I12: a strict submitter begins in agreement with the chain.
    #[error("{0}")]
    Chain(#[from] CannotResume),
}

/// Checks whether a submitter's mode may change, and the cursor move that goes with it. `waiting` of its
/// transactions have no slot yet; of the nonces that callers have, `held` are not used yet.
///
/// A change to strict re-aligns with the chain exactly as [`resume`] does: a cursor behind the chain moves
/// forward; a chain that counts less than our slots explain is refused.
pub fn change(
    view: &ReconcileView<'_>,
    waiting: usize,
    held: &BTreeSet<Nonce>,
    to: Mode,
) -> Result<Option<CursorMove>, CannotChangeMode> {
    let is_out = |nonce: &&Nonce| **nonce >= view.counts.mined || held.contains(*nonce);
    let reserved = view.reserved.iter().filter(is_out).count();
    let open = view.open.len() + waiting;
    if open + reserved > 0 {
        return Err(CannotChangeMode::InUse { open, reserved });
    }
    match to {
        Mode::Pipelined => Ok(None),
        Mode::Strict => Ok(resume(&ReconcileView { mode: to, ..*view })?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nonce::SubmitterStatus;
    use crate::port::chain::AccountCounts;
    use crate::test_values::nonce;

    fn asked(
        (cursor, mined): (u64, u64),
        reserved: &[u64],
        held: &BTreeSet<Nonce>,
        waiting: usize,
        to: Mode,
    ) -> Result<Option<CursorMove>, CannotChangeMode> {
        let reserved: BTreeSet<Nonce> = reserved.iter().copied().map(nonce).collect();
        let view = ReconcileView {
            mode: Mode::Pipelined,
            status: SubmitterStatus::Active,
            cursor: nonce(cursor),
            counts: AccountCounts::confirmed(nonce(mined), nonce(mined)),
            settled: None,
            final_end: Nonce::MIN,
            open: &[],
            reserved: &reserved,
            patience: std::time::Duration::ZERO,
        };
        change(&view, waiting, held, to)
    }

    #[test]
    fn mode_change_with_open_or_reserved_work_is_refused() {
        let (none, third) = (BTreeSet::new(), BTreeSet::from([nonce(3)]));
        for to in Mode::ALL {
            let waits = CannotChangeMode::InUse { open: 2, reserved: 0 };
            assert_eq!(asked((5, 5), &[], &none, 2, to), Err(waits));
            let held = CannotChangeMode::InUse { open: 0, reserved: 1 };
            assert_eq!(asked((6, 5), &[5], &none, 0, to), Err(held));
            assert_eq!(
                asked((5, 5), &[3], &none, 0, to),
                Ok(None),
                "the chain counts it: it is over"
            );
            let held = asked((5, 5), &[3], &third, 0, to);
            assert!(held.is_err(), "whoever holds it has not said what became of it");
        }
    }

    #[test]
    fn mode_change_to_strict_aligns_the_cursor_with_the_chain_or_is_refused() {
        let none = BTreeSet::new();
        let aligned = CursorMove { from: nonce(3), to: nonce(5) };
        assert_eq!(asked((3, 5), &[], &none, 0, Mode::Strict), Ok(Some(aligned)));
        assert_eq!(asked((5, 5), &[], &none, 0, Mode::Strict), Ok(None));
        let behind = asked((5, 3), &[], &none, 0, Mode::Strict);
        assert!(matches!(behind, Err(CannotChangeMode::Chain(_))), "{behind:?}");
        assert_eq!(asked((3, 5), &[], &none, 0, Mode::Pipelined), Ok(None));
        assert_eq!(asked((5, 3), &[], &none, 0, Mode::Pipelined), Ok(None));
    }
}
