//! Asks the endpoints whether they support a receipt that is about to become final.
//!
//! Owns no state. The rule is [`tollgate_model::receipt_support`]. Endpoints that contradict each other
//! about one block are judged by the block itself ([`super::block_proof`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tollgate_model::port::TxReceipt;
use tollgate_model::receipt_support::{ReceiptSupport, ReceiptVote, support_of, with_block};
use tollgate_model::{B256, TxHash};

use super::block_proof::BlockEvidence;
use super::disagreements::{Basis, Claim, Subject};
use super::pool_member::PoolMember;
use super::receipts::ReceiptQuery;
use super::router::{Needs, Router};

/// Endpoints that are asked at first. The others are asked if these don't agree.
const ASKED_FIRST: usize = 2;

/// The pause before the first try to learn whether blocks prove their receipts; it doubles.
const LEARN_PAUSE: Duration = Duration::from_secs(5);
const LEARN_TRIES: u32 = 8;
/// Blocks below the head in which a transaction is looked for.
const LEARN_BLOCKS: u64 = 8;

/// The support of each receipt; all are of one block, which holds `size` transactions.
pub(super) async fn receipt_support(
    router: &Router,
    size: Option<usize>,
    receipts: &[TxReceipt],
) -> Vec<ReceiptSupport> {
    let Some(first) = receipts.first() else { return Vec::new() };
    let at = (first.block_number, first.block_hash);
    let now = Instant::now();
    let mut readers = router.readers(Needs::Block(at.0), now);
    // An endpoint that rests, lags or announces blocks that it lacks counts as one that did not answer.
    readers.retain(|member| router.is_reliable(member, now));
    let endpoints = router.readers_configured();
    let mut ballot = Ballot { receipts, votes: vec![Vec::new(); receipts.len()], endpoints };
    let (asked_first, others) = readers.split_at(readers.len().min(ASKED_FIRST));
    for members in [asked_first, others] {
        let asked = members.iter().map(async |member| {
            let query = ReceiptQuery { router, member, at, size };
            votes(&query, receipts).await
        });
        for (member, votes) in members.iter().zip(join_all(asked).await) {
            ballot.add(member, votes);
        }
        if ballot.is_decided() {
            break;
        }
    }
    let mut support = ballot.support();
    let needs_proof = ballot.is_disputed() || support.contains(&ReceiptSupport::Lone);
    if needs_proof || (ballot.is_decided() && router.is_proof_worth_trying(now)) {
        let evidence = evidence(router, &readers, at).await;
        for (support, receipt) in support.iter_mut().zip(receipts) {
            let finding = evidence.finding(receipt);
            *support = with_block(support.clone(), receipt, finding, router.blocks_prove());
        }
    }
    ballot.warn(router, &support);
    support
}

/// One endpoint's answer about each receipt.
async fn votes(query: &ReceiptQuery<'_>, receipts: &[TxReceipt]) -> Vec<ReceiptVote> {
    let mut wanted: Vec<TxHash> = receipts.iter().map(|receipt| receipt.tx_hash).collect();
    let mut found = Vec::new();
    let answer = query.read(&mut wanted, &mut found).await;
    let found: HashMap<TxHash, TxReceipt> =
        found.into_iter().map(|receipt| (receipt.tx_hash, receipt)).collect();
    let vote = |receipt: &TxReceipt| match (found.get(&receipt.tx_hash), &answer) {
        (Some(found), _) => ReceiptVote::Receipt(Box::new(found.clone())),
        (None, Ok(true)) => ReceiptVote::Silent,
        (None, Ok(false)) => ReceiptVote::OtherBlock,
        (None, Err(it)) if it.absent.contains(&receipt.tx_hash) => ReceiptVote::NotInBlock,
        (None, Err(problem)) if problem.has_block => ReceiptVote::NoReceipt,
        (None, Err(_)) => ReceiptVote::Silent,
    };
    receipts.iter().map(vote).collect()
}

/// The answers so far.
struct Ballot<'a> {
    receipts: &'a [TxReceipt],
    /// For each receipt, the answer of each endpoint.
    votes: Vec<Vec<(Arc<PoolMember>, ReceiptVote)>>,
    endpoints: usize,
}

impl Ballot<'_> {
    fn add(&mut self, member: &Arc<PoolMember>, votes: Vec<ReceiptVote>) {
        for (all, vote) in self.votes.iter_mut().zip(votes) {
            all.push((member.clone(), vote));
        }
    }

    fn support(&self) -> Vec<ReceiptSupport> {
        let support = |(receipt, votes): (&TxReceipt, &Vec<(_, ReceiptVote)>)| {
            let votes: Vec<_> = votes.iter().map(|(_, vote)| vote.clone()).collect();
            support_of(receipt, &votes, self.endpoints)
        };
        self.receipts.iter().zip(&self.votes).map(support).collect()
    }

    fn is_decided(&self) -> bool {
        let is_open = |it: &ReceiptSupport| {
            matches!(
                it,
                ReceiptSupport::Lone | ReceiptSupport::Unanswered | ReceiptSupport::Disputed(_)
            )
        };
        !self.support().iter().any(is_open)
    }

    /// Returns whether endpoints contradict each other about what one block holds.
    fn is_disputed(&self) -> bool {
        let is_disputed = |it: &ReceiptSupport| matches!(it, ReceiptSupport::Disputed(_));
        let contradicts = |receipt: &TxReceipt, vote: &ReceiptVote| match vote {
            ReceiptVote::Receipt(shown) => !shown.has_outcome_of(receipt),
            ReceiptVote::NotInBlock => true,
            ReceiptVote::OtherBlock | ReceiptVote::NoReceipt | ReceiptVote::Silent => false,
        };
        let support = self.support();
        let mut all = self.receipts.iter().zip(&self.votes).zip(&support);
        all.any(|((receipt, votes), support)| {
            is_disputed(support) && votes.iter().any(|(_, vote)| contradicts(receipt, vote))
        })
    }

    /// Names the endpoints whose answers were proven wrong.
    fn warn(&self, router: &Router, support: &[ReceiptSupport]) {
        for ((receipt, votes), support) in self.receipts.iter().zip(&self.votes).zip(support) {
            let used = match support {
                ReceiptSupport::Confirmed => told(receipt),
                ReceiptSupport::Corrected(other) => told(other),
                ReceiptSupport::Refuted => NOT_IN_BLOCK.to_owned(),
                ReceiptSupport::Lone | ReceiptSupport::Unanswered | ReceiptSupport::Disputed(_) => {
                    continue;
                }
            };
            let claims: Vec<Claim> = votes
                .iter()
                .filter_map(|(member, vote)| {
                    let claimed = match vote {
                        ReceiptVote::Receipt(shown) => told(shown),
                        ReceiptVote::NotInBlock => NOT_IN_BLOCK.to_owned(),
                        ReceiptVote::OtherBlock | ReceiptVote::NoReceipt | ReceiptVote::Silent => {
                            return None;
                        }
                    };
                    Some(Claim::new(member.endpoint.name(), claimed))
                })
                .collect();
            let hash = receipt.tx_hash.to_string();
            let subject = Subject { what: "receipt", of: &hash };
            router.disagreements.note(subject, used, &claims, (Basis::Evidence, Duration::ZERO));
        }
    }
}

const NOT_IN_BLOCK: &str = "not in the block";

fn told(receipt: &TxReceipt) -> String {
    let status = if receipt.succeeded { "success" } else { "failure" };
    format!("{status}, gas {}", receipt.gas_used)
}

/// The endpoints' evidence about a block. Notes whether blocks of this chain prove their receipts.
async fn evidence(router: &Router, readers: &[Arc<PoolMember>], at: (u64, B256)) -> BlockEvidence {
    let evidence = BlockEvidence::read(readers, at, router.deadline()).await;
    if evidence.shows_that_blocks_prove() {
        router.note_proven_block();
    }
    evidence
}

/// Finds out from recent blocks whether blocks of this chain prove their receipts. An endpoint that is alone later
/// can't hide it then. Ends once a block has proven its receipts, or after some tries.
pub(super) async fn learn(router: Arc<Router>) {
    for tried in 0..LEARN_TRIES {
        sleep(LEARN_PAUSE * 2_u32.pow(tried)).await;
        if router.readers_configured() < 2 {
            continue;
        }
        let Some(head) = router.head() else { continue };
        let readers = router.readers(Needs::Head, Instant::now());
        for number in (head.number.saturating_sub(LEARN_BLOCKS)..=head.number).rev() {
            let Ok(Some(block)) = super::blocks::by_number(&router, number).await else { break };
            if router.blocks_prove() {
                return;
            }
            if !block.transactions.is_empty() {
                evidence(&router, &readers, (number, block.at.hash)).await;
                break;
            }
        }
    }
}
