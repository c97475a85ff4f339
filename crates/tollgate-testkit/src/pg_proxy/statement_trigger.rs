//! Fires when the statements of a transaction match: cuts or pauses the connection there.

use std::sync::{Mutex, MutexGuard};

use crate::pause_points::{PauseHere, Paused, pause};

/// The place of a cut, relative to the matching statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The statement is not forwarded.
    Before,
    /// The statement is forwarded; its answer is not.
    After,
}

/// The fault of a connection whose transaction matches.
pub(super) enum Action {
    Cut(Side),
    Pause(PauseHere),
}

/// The armed triggers of all connections of a proxy.
#[derive(Default)]
pub(super) struct StatementTrigger {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cut: Option<(Side, Vec<String>)>,
    pause: Option<(Vec<String>, PauseHere)>,
    cuts_left: usize,
    cuts_done: usize,
}

impl StatementTrigger {
    pub(super) fn arm_cut(&self, side: Side, statements: &[&str], times: usize) {
        let statements = lowercase(statements);
        let mut state = self.lock();
        (state.cut, state.cuts_left) = (Some((side, statements)), times);
    }

    pub(super) fn arm_pause(&self, statements: &[&str]) -> Paused {
        let statements = lowercase(statements);
        let (paused, here) = pause(format!("a transaction with {statements:?}"));
        self.lock().pause = Some((statements, here));
        paused
    }

    pub(super) fn cuts_done(&self) -> usize {
        self.lock().cuts_done
    }

    /// Fires if the statements of this transaction match, the last one of them just now.
    pub(super) fn fire(&self, transaction: &[String]) -> Option<Action> {
        let mut state = self.lock();
        if let Some((_, here)) = state.pause.take_if(|(parts, _)| matches(parts, transaction)) {
            return Some(Action::Pause(here));
        }
        let (side, parts) = state.cut.as_ref().filter(|_| state.cuts_left > 0)?;
        let side = matches(parts, transaction).then_some(*side)?;
        state.cuts_left -= 1;
        state.cuts_done += 1;
        Some(Action::Cut(side))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn lowercase(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|part| part.to_lowercase()).collect()
}

/// True if the transaction contains all parts in this order, the last one in its newest statement.
fn matches(parts: &[String], transaction: &[String]) -> bool {
    let (Some((last, earlier)), Some((newest, before))) =
        (parts.split_last(), transaction.split_last())
    else {
        return false;
    };
    let mut before = before.iter();
    newest.contains(last) && earlier.iter().all(|part| before.any(|sql| sql.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(statements: &[&str]) -> Vec<String> {
        statements.iter().map(|sql| (*sql).to_owned()).collect()
    }

    fn cut(action: Option<Action>) -> Option<Side> {
        match action {
            Some(Action::Cut(side)) => Some(side),
            Some(Action::Pause(_)) | None => None,
        }
    }

    #[test]
    fn cut_fires_on_the_last_statement_of_one_transaction_at_most_n_times() {
        let trigger = StatementTrigger::default();
        assert_eq!(cut(trigger.fire(&transaction(&["commit"]))), None, "it is not armed");
        trigger.arm_cut(Side::After, &["managed_tx", "commit"], 1);
        for other in [&["commit"][..], &["insert into managed_tx"], &["commit", "managed_tx"]] {
            assert_eq!(cut(trigger.fire(&transaction(other))), None, "{other:?}");
        }
        let whole = transaction(&["begin", "insert into managed_tx", "select", "commit"]);
        assert_eq!(cut(trigger.fire(&whole)), Some(Side::After));
        assert_eq!((cut(trigger.fire(&whole)), trigger.cuts_done()), (None, 1));
    }

    #[tokio::test]
    async fn pause_stops_the_commit_of_the_named_transaction_only() {
        let trigger = StatementTrigger::default();
        let mut paused = trigger.arm_pause(&["insert into managed_tx", "commit"]);
        let other = transaction(&["begin", "update managed_tx", "commit"]);
        assert!(trigger.fire(&other).is_none(), "another transaction commits");
        let whole = transaction(&["begin", "insert into managed_tx", "commit"]);
        let Some(Action::Pause(here)) = trigger.fire(&whole) else { panic!("it passed") };
        assert!(trigger.fire(&whole).is_none(), "one is paused");
        let waits = tokio::spawn(here.wait());
        paused.reached().await;
        assert!(!waits.is_finished());
        paused.release();
        waits.await.unwrap();
    }
}
