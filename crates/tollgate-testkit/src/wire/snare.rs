//! Waits for words on a wire, to cut it there.

use std::sync::{Mutex, MutexGuard};

/// Where a wire is cut, seen from the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// They are not passed on.
    Before,
    /// They are passed on, and the answer is not passed back.
    After,
}

/// Laid out on all connections of a wire.
#[derive(Default)]
pub(super) struct Snare {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    laid: Option<(Side, Vec<String>)>,
    /// How often it may still spring.
    left: usize,
    sprung: usize,
}

impl Snare {
    pub(super) fn lay(&self, side: Side, words: &[&str], times: usize) {
        let words = words.iter().map(|word| word.to_lowercase()).collect();
        let mut state = self.lock();
        (state.laid, state.left) = (Some((side, words)), times);
    }

    pub(super) fn sprung(&self) -> usize {
        self.lock().sprung
    }

    /// Whether it springs now: all its words came in this transaction, in this order, the last one
    /// just now.
    pub(super) fn springs(&self, transaction: &[String]) -> Option<Side> {
        let mut state = self.lock();
        let (side, words) = state.laid.as_ref().filter(|_| state.left > 0)?;
        let (last, earlier) = words.split_last()?;
        let (now, before) = transaction.split_last()?;
        let mut before = before.iter();
        let came =
            now.contains(last) && earlier.iter().all(|word| before.any(|sql| sql.contains(word)));
        let side = came.then_some(*side)?;
        state.left -= 1;
        state.sprung += 1;
        Some(side)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_springs_at_the_last_word_of_one_transaction_and_so_often_only() {
        let said = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let snare = Snare::default();
        assert_eq!(snare.springs(&said(&["commit"])), None, "it was not laid");
        snare.lay(Side::After, &["managed_tx", "commit"], 1);
        for other in [&["commit"][..], &["insert into managed_tx"], &["commit", "managed_tx"]] {
            assert_eq!(snare.springs(&said(other)), None, "{other:?}");
        }
        let whole = said(&["begin", "insert into managed_tx", "select", "commit"]);
        assert_eq!(snare.springs(&whole), Some(Side::After));
        assert_eq!((snare.springs(&whole), snare.sprung()), (None, 1));
    }
}
