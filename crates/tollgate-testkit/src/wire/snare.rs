//! Waits for words on a wire, to cut it there.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::wait::within;

/// Where a wire is cut, seen from the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// They are not passed on.
    Before,
    /// They are passed on, and the answer is not passed back.
    After,
}

/// What becomes of a connection that was caught.
pub(super) enum Catch {
    /// It ends.
    Cut(Side),
    /// It waits.
    Hold(Stop),
}

/// The held connection's end of a [`HeldStatement`].
pub(super) struct Stop {
    arrived: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

impl Stop {
    pub(super) async fn wait(self) {
        let _ = self.arrived.send(());
        // A dropped hold releases too.
        let _ = self.released.await;
    }
}

/// A statement that waits on the wire, chosen by its transaction.
pub struct HeldStatement {
    words: Vec<String>,
    arrived: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

impl HeldStatement {
    /// Waits until it is there.
    pub async fn reached(&mut self) {
        let what = format!("a transaction with {:?}", self.words);
        within(&what, &mut self.arrived).await.unwrap();
    }

    /// Lets it go on.
    pub fn release(self) {
        let _ = self.release.send(());
    }
}

/// Laid out on all connections of a wire.
#[derive(Default)]
pub(super) struct Snare {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    laid: Option<(Side, Vec<String>)>,
    held: Option<(Vec<String>, Stop)>,
    /// How often it may still spring.
    left: usize,
    sprung: usize,
}

impl Snare {
    pub(super) fn lay(&self, side: Side, words: &[&str], times: usize) {
        let words = lowercase(words);
        let mut state = self.lock();
        (state.laid, state.left) = (Some((side, words)), times);
    }

    pub(super) fn lay_hold(&self, words: &[&str]) -> HeldStatement {
        let words = lowercase(words);
        let (arrived, has_arrived) = oneshot::channel();
        let (release, released) = oneshot::channel();
        self.lock().held = Some((words.clone(), Stop { arrived, released }));
        HeldStatement { words, arrived: has_arrived, release }
    }

    pub(super) fn sprung(&self) -> usize {
        self.lock().sprung
    }

    /// Whether it springs now: all its words came in this transaction, in this order, the last one
    /// just now.
    pub(super) fn springs(&self, transaction: &[String]) -> Option<Catch> {
        let mut state = self.lock();
        if let Some((_, stop)) = state.held.take_if(|(words, _)| came(words, transaction)) {
            return Some(Catch::Hold(stop));
        }
        let (side, words) = state.laid.as_ref().filter(|_| state.left > 0)?;
        let side = came(words, transaction).then_some(*side)?;
        state.left -= 1;
        state.sprung += 1;
        Some(Catch::Cut(side))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn lowercase(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_lowercase()).collect()
}

/// Whether all words came in this transaction, in this order, the last one just now.
fn came(words: &[String], transaction: &[String]) -> bool {
    let (Some((last, earlier)), Some((now, before))) =
        (words.split_last(), transaction.split_last())
    else {
        return false;
    };
    let mut before = before.iter();
    now.contains(last) && earlier.iter().all(|word| before.any(|sql| sql.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn cut(caught: Option<Catch>) -> Option<Side> {
        match caught {
            Some(Catch::Cut(side)) => Some(side),
            Some(Catch::Hold(_)) | None => None,
        }
    }

    #[test]
    fn cut_fires_on_the_last_word_of_one_transaction_at_most_n_times() {
        let snare = Snare::default();
        assert_eq!(cut(snare.springs(&said(&["commit"]))), None, "it was not laid");
        snare.lay(Side::After, &["managed_tx", "commit"], 1);
        for other in [&["commit"][..], &["insert into managed_tx"], &["commit", "managed_tx"]] {
            assert_eq!(cut(snare.springs(&said(other))), None, "{other:?}");
        }
        let whole = said(&["begin", "insert into managed_tx", "select", "commit"]);
        assert_eq!(cut(snare.springs(&whole)), Some(Side::After));
        assert_eq!((cut(snare.springs(&whole)), snare.sprung()), (None, 1));
    }

    #[tokio::test]
    async fn hold_stops_the_commit_of_the_named_transaction_only() {
        let snare = Snare::default();
        let mut held = snare.lay_hold(&["insert into managed_tx", "commit"]);
        let other = said(&["begin", "update managed_tx", "commit"]);
        assert!(snare.springs(&other).is_none(), "another transaction commits");
        let whole = said(&["begin", "insert into managed_tx", "commit"]);
        let Some(Catch::Hold(stop)) = snare.springs(&whole) else { panic!("it passed") };
        assert!(snare.springs(&whole).is_none(), "one is held");
        let waits = tokio::spawn(stop.wait());
        held.reached().await;
        assert!(!waits.is_finished());
        held.release();
        waits.await.unwrap();
    }
}
