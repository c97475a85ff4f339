//! The block that a finality tag (`safe`, `finalized`) names, as far as two endpoints confirm it.
//!
//! Owns the highest confirmed block of each tag; it never goes back. Early is worse than late (I8):
//!
//! - A tag is an endpoint's claim that the chain is settled up to a height. The **confirmed height** is
//!   the highest that two endpoints claim: of two tags the lower one.
//! - Its **block** is read by number from endpoints that claim so much, and two of them must show the
//!   same hash. A tag above the head and a tag with an invented hash change nothing.
//! - An endpoint that announces blocks it does not deliver has no claim of its own. It still confirms
//!   the tag of another one by claiming at least as much, because the height is the other one's.
//! - Without a second claim, one is enough after
//!   [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after) (I15).
//! - A tag that stays behind what an endpoint claims is named in a warning with everybody's claim.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::count_mark::agreed;
use tollgate_model::port::chain::{Block, BlockTag, ChainUnavailable};

use super::blocks::block_of;
use super::corroboration::SingleSource;
use super::disagreements::{Basis, Claim, LASTING, Subject};
use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::RpcErrorKind;
use crate::endpoint::json::{BlockJson, quantity};

/// Endpoints that are asked for a tag.
const VOTERS_MAX: usize = 3;

/// The confirmed blocks, by tag.
#[derive(Debug, Default)]
pub(super) struct FinalityTags {
    tags: Mutex<HashMap<&'static str, Confirmed>>,
}

#[derive(Debug, Default)]
struct Confirmed {
    /// The highest block that was confirmed.
    block: Option<Block>,
    single: SingleSource,
}

impl Confirmed {
    fn number(&self) -> Option<u64> {
        self.block.as_ref().map(|block| block.at.number)
    }
}

/// The endpoints' answers to the question for a tag.
#[derive(Default)]
struct Claims {
    /// The endpoints with the height that each claims. One whose head is doubted is here only as a second claim.
    heights: Vec<(Arc<PoolMember>, u64)>,
    /// An endpoint has no block of this tag.
    is_lacking: bool,
    /// Everybody's answer, for people.
    answers: Vec<String>,
}

impl Claims {
    async fn read(router: &Router, tag: &'static str) -> Self {
        let now = Instant::now();
        let voters = router.voters(Needs::Head, VOTERS_MAX, now);
        let is_voter =
            |member: &Arc<PoolMember>| voters.iter().any(|one| one.place == member.place);
        let mut asked = voters.clone();
        asked.extend(router.doubted(now).into_iter().filter(|member| !is_voter(member)));
        let deadline = router.read_deadline_for(&voters);
        let answers = join_all(asked.iter().map(|member| {
            let params = json!([tag, false]);
            member.endpoint.call_until("eth_getBlockByNumber", params, deadline)
        }))
        .await;
        let (mut claims, mut of_doubted) = (Self::default(), Vec::new());
        for (member, answer) in asked.iter().zip(answers) {
            let name = member.endpoint.name();
            match answer.map(|block: Option<BlockJson>| block.and_then(|block| block.at())) {
                Ok(Some(at)) => {
                    claims.answers.push(format!("{name}: {}", at.number));
                    match is_voter(member) {
                        true => claims.heights.push((member.clone(), at.number)),
                        false => of_doubted.push((member.clone(), at.number)),
                    }
                }
                Ok(None) => {
                    claims.answers.push(format!("{name}: none"));
                    claims.is_lacking |= is_voter(member);
                }
                Err(error) => {
                    claims.answers.push(format!("{name}: {error}"));
                    // A node without the tag says so as an error, in many ways.
                    claims.is_lacking |= is_voter(member) && error.kind == RpcErrorKind::Node;
                }
            }
        }
        if let [(_, height)] = claims.heights[..] {
            claims.heights.extend(of_doubted.into_iter().filter(|(_, other)| *other >= height));
        }
        claims
    }

    /// Notes who claims more than is confirmed, while nothing more is confirmed.
    fn compare(&self, router: &Router, tag: &'static str, confirmed: Option<u64>, moved: bool) {
        let used = confirmed.map_or("none".to_owned(), |number| number.to_string());
        let claim = |(member, height): &(Arc<PoolMember>, u64)| {
            let is_above = !moved && Some(*height) > confirmed;
            let claimed = if is_above { height.to_string() } else { used.clone() };
            Claim::new(member.endpoint.name(), claimed)
        };
        let all: Vec<_> = self.heights.iter().map(claim).collect();
        router.disagreements.note(
            Subject { what: tag, of: "" },
            &used,
            &all,
            (Basis::Evidence, LASTING),
        );
    }

    /// The block at a height, by those who claim at least that height, and how many of them show it.
    /// `None` if two show different blocks, or nobody shows one.
    async fn block_at(&self, router: &Router, number: u64) -> Option<(Block, usize)> {
        let claimants = self.heights.iter().filter(|(_, height)| *height >= number);
        let deadline = router.deadline();
        let shown = join_all(claimants.map(|(member, _)| {
            let params = json!([quantity(number), false]);
            member.call_with_retries::<Option<BlockJson>>("eth_getBlockByNumber", params, deadline)
        }))
        .await;
        let blocks = shown.into_iter().filter_map(|block| block.ok().flatten().and_then(block_of));
        let blocks: Vec<Block> = blocks.filter(|block| block.at.number == number).collect();
        let shown_by = |block: &Block| blocks.iter().filter(|one| one.at == block.at).count();
        let best = blocks.iter().max_by_key(|block| shown_by(block))?;
        let count = shown_by(best);
        (count >= 2 || blocks.len() == 1).then(|| (best.clone(), count))
    }
}

/// The block up to which the chain is settled by a tag.
pub(super) async fn settled(
    router: &Router,
    tags: &FinalityTags,
    tag: BlockTag,
) -> Result<Option<Block>, ChainUnavailable> {
    let name = if tag == BlockTag::Safe { "safe" } else { "finalized" };
    let claims = Claims::read(router, name).await;
    let height = agreed(claims.heights.iter().map(|(_, height)| *height));
    let before = tags.with(name, |confirmed| confirmed.number());
    let higher = height.filter(|height| Some(*height) > before);
    let found = match higher {
        Some(height) => claims.block_at(router, height).await,
        None => None,
    };
    // Claims that confirm nothing new are as good as the height that is confirmed already.
    let confirming = match (higher, &found) {
        (None, _) => claims.heights.len(),
        (Some(_), Some((_, shown_by))) => *shown_by,
        (Some(_), None) => 0,
    };
    tags.with(name, |confirmed| {
        let (configured, after) = (router.readers_configured(), router.config.single_source_after);
        let now = Instant::now();
        let is_enough = confirmed.single.is_enough(confirming, configured, now, after);
        let is_higher = |block: &Block| Some(block.at.number) > confirmed.number();
        let next = found.map(|(block, _)| block).filter(|block| is_enough && is_higher(block));
        let moved = next.is_some();
        if moved {
            confirmed.block = next;
        }
        claims.compare(router, name, confirmed.number(), moved);
        match &confirmed.block {
            Some(block) => Ok(Some(block.clone())),
            None if claims.heights.is_empty() && claims.is_lacking => Ok(None),
            None => {
                let mut answers = claims.answers;
                if claims.heights.len() == 1 {
                    answers.push("no second endpoint confirms it".to_owned());
                }
                Err(unavailable(name, &answers))
            }
        }
    })
}

impl FinalityTags {
    fn with<T>(&self, tag: &'static str, act: impl FnOnce(&mut Confirmed) -> T) -> T {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        act(tags.entry(tag).or_default())
    }
}
