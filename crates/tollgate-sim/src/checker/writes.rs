//! Every write to the database: who may, and that nothing goes back (I1, I2, I4).

use tollgate_model::NodeId;
use tollgate_model::port::{FencedBatch, Lease, SectionOutcome, TxStore};

use super::Grant;
use crate::world::World;

impl World {
    /// A lease was granted.
    pub(crate) async fn granted(&self, lease: Lease, node: &NodeId) {
        let Lease { submitter, token } = lease;
        let fault = {
            let mut seen = self.checker.lock();
            let fault = seen.grants.get(&submitter).and_then(|last| {
                if token < last.token {
                    Some(("I4", format!("the token of {submitter} went back to {}", token.get())))
                } else if token == last.token && last.node != *node {
                    Some(("I1", format!("{} and {} share token {}", last.node, node, token.get())))
                } else {
                    None
                }
            });
            let grant = Grant { token, node: node.clone(), released: false };
            seen.grants.insert(submitter, grant);
            fault
        };
        if let Some((promise, what)) = fault {
            self.checker.fail(self, promise, what);
        }
        self.check_cursor(lease).await;
    }

    /// Leases were let go.
    pub(crate) async fn released(&self, leases: &[Lease]) {
        let mut seen = self.checker.lock();
        for lease in leases {
            if let Some(grant) = seen.grants.get_mut(&lease.submitter)
                && grant.token == lease.token
            {
                grant.released = true;
            }
        }
    }

    /// A batch was committed, or was not.
    pub(crate) async fn committed(
        &self,
        name: &str,
        batch: &FencedBatch,
        outcomes: Option<&Vec<SectionOutcome>>,
        told: bool,
    ) {
        let mut ends = false;
        for (section, outcome) in batch.sections().iter().zip(outcomes.into_iter().flatten()) {
            let Lease { submitter, token } = section.lease;
            let word = match outcome {
                SectionOutcome::Committed { .. } => "committed",
                SectionOutcome::Fenced => "fenced",
                SectionOutcome::Stale { .. } => "stale",
                SectionOutcome::Refused(_) => "refused",
            };
            let moves: Vec<String> = section
                .updates
                .iter()
                .map(|update| format!("{} {}->{}", update.tx_id, update.event_name(), update.to()))
                .collect();
            let creates: Vec<String> = section
                .creates
                .iter()
                .map(|tx| format!("{} {:?}", tx.tx_id, tx.slot.as_ref().map(|s| s.nonce.get())))
                .collect();
            self.note(format_args!(
                "{name} {word} token {} told {told} create {creates:?} {moves:?} cursor {:?}",
                token.get(),
                section.cursor.map(|step| (step.from.get(), step.to.get()))
            ));
            if word != "committed" {
                continue;
            }
            ends |= section.updates.iter().any(|update| update.to().is_final());
            let fault = {
                let seen = self.checker.lock();
                match seen.grants.get(&submitter) {
                    Some(grant) if grant.token == token && grant.node == *batch.node() => {
                        grant.released.then(|| format!("{name} wrote under a lease it let go"))
                    }
                    Some(grant) => Some(format!(
                        "{name} wrote under token {}, which {} holds as {}",
                        token.get(),
                        grant.node,
                        grant.token.get()
                    )),
                    None => Some(format!("{name} wrote without a lease")),
                }
            };
            if let Some(what) = fault {
                self.checker.fail(self, "I2", what);
            }
            self.check_step(section);
            self.check_cursor(section.lease).await;
        }
        if ends {
            self.read_feed().await;
        }
    }

    async fn check_cursor(&self, lease: Lease) {
        let Ok(Some(record)) = self.store.submitter(lease.submitter).await else { return };
        let next = record.next_nonce;
        let before = self.checker.lock().cursors.insert(lease.submitter, next);
        if let Some(before) = before.filter(|before| *before > next) {
            let what = format!("the cursor of {} went from {before} to {next}", lease.submitter);
            self.checker.fail(self, "I4", what);
        }
    }
}
