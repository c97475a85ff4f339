//! Asks the endpoints whether they support a receipt that is about to become final.
//!
//! Owns no state. The rule is [`tollgate_model::receipt_support`]. Endpoints that contradict each other
//! about one block are judged by the block itself ([`super::block_proof`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tollgate_model::port::TxReceipt;
use tollgate_model::receipt_support::{
    BlockFinding, ReceiptSupport, ReceiptVote, support_of, with_block,
};
use tollgate_model::{B256, TxHash};
use tracing::warn;

use super::block_proof::{BlockEvidence, has_false_block};
use super::disagreements::{Basis, Claim, Subject};
use super::pool_member::{PoolMember, Proof};
use super::receipts::ReceiptQuery;
use super::router::{Needs, Router};

/// Endpoints that are asked at first. The others are asked if these don't agree.
const ASKED_FIRST: usize = 2;

/// The pause before the first try to learn which endpoints prove blocks; it doubles.
const LEARN_PAUSE_MIN: Duration = Duration::from_secs(5);
const LEARN_PAUSE_MAX: Duration = Duration::from_secs(600);
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
    ballot.ignore_false_blocks(router, at.0).await;
    let mut support = ballot.support();
    if ballot.is_disputed() || support.contains(&ReceiptSupport::Lone) {
        let evidence = evidence(router, &readers, at).await;
        let ballots = receipts.iter().zip(&ballot.votes);
        for (support, (receipt, votes)) in support.iter_mut().zip(ballots) {
            let finding = evidence.finding(receipt);
            let could_prove = could_prove(receipt, votes, &finding);
            *support = with_block(support.clone(), receipt, finding, could_prove);
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

    /// Ignores other blocks at this height that do not match their own hash, of endpoints that have shown
    /// blocks which do.
    async fn ignore_false_blocks(&mut self, router: &Router, number: u64) {
        let elsewhere = self.votes.iter().flatten().filter(|(member, vote)| {
            *vote == ReceiptVote::OtherBlock && member.has_given(Proof::Block)
        });
        let members: BTreeMap<usize, Arc<PoolMember>> =
            elsewhere.map(|(member, _)| (member.place, member.clone())).collect();
        for member in members.into_values() {
            if has_false_block(&member, number, router.deadline()).await != Some(true) {
                continue;
            }
            let endpoint = member.endpoint.name();
            warn!(
                endpoint,
                block = number,
                "block of an endpoint ignored: it does not match its hash"
            );
            for (of, vote) in self.votes.iter_mut().flatten() {
                if of.place == member.place {
                    *vote = ReceiptVote::Silent;
                }
            }
        }
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

/// Returns whether an endpoint that shows the receipt has shown earlier what is missing now.
fn could_prove(
    receipt: &TxReceipt,
    votes: &[(Arc<PoolMember>, ReceiptVote)],
    finding: &BlockFinding,
) -> bool {
    let missing = match finding {
        BlockFinding::Unprovable => Proof::Block,
        BlockFinding::Held => Proof::Receipts,
        _ => return false,
    };
    let shows = |vote: &ReceiptVote| matches!(vote, ReceiptVote::Receipt(shown) if shown.has_outcome_of(receipt));
    votes.iter().any(|(member, vote)| shows(vote) && member.has_given(missing))
}

/// The endpoints' evidence about a block.
async fn evidence(
    router: &Router,
    readers: &[Arc<PoolMember>],
    at: (u64, B256),
) -> Arc<BlockEvidence> {
    if let Some(known) = router.known_evidence(at.1) {
        return known;
    }
    let members = u32::try_from(readers.len().max(1)).unwrap_or(u32::MAX);
    let patience = router.config.read_deadline / members;
    let evidence = Arc::new(BlockEvidence::read(readers, at, patience).await);
    if evidence.is_complete() {
        router.keep_evidence(at.1, evidence.clone());
    }
    evidence
}

/// Finds out from recent blocks which endpoints prove blocks and receipts. One that is alone later can't hide
/// that it does. Ends once all have proven some.
pub(super) async fn learn(router: Arc<Router>) {
    let mut pause = LEARN_PAUSE_MIN;
    loop {
        sleep(pause).await;
        pause = (pause * 2).min(LEARN_PAUSE_MAX);
        if router.readers_configured() < 2 {
            continue;
        }
        let readers = router.readers(Needs::Head, Instant::now());
        let has_all = |member: &Arc<PoolMember>| {
            [Proof::Block, Proof::Receipts].iter().all(|proof| member.has_given(*proof))
        };
        let missing: Vec<_> = readers.into_iter().filter(|member| !has_all(member)).collect();
        if missing.is_empty() {
            return;
        }
        let Some(at) = recent_block(&router).await else { continue };
        for member in missing {
            BlockEvidence::read(&[member], at, router.config.read_deadline).await;
        }
    }
}

/// The newest block with transactions, if one of the last has any.
async fn recent_block(router: &Router) -> Option<(u64, B256)> {
    let head = router.head()?.number;
    for number in (head.saturating_sub(LEARN_BLOCKS)..=head).rev() {
        let block = super::blocks::by_number(router, number).await.ok()??;
        if !block.transactions.is_empty() {
            return Some((number, block.at.hash));
        }
    }
    None
}
