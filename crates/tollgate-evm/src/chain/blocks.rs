//! Blocks by number and by tag.
//!
//! A block that is there by one endpoint's word is there; one that is missing is missing only when
//! everybody who should have it says so.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{Block, BlockTag, ChainUnavailable};

use super::counts::agreed;
use super::router::{Needs, Router, unavailable};
use super::voices::LoneVoice;
use crate::endpoint::RpcErrorKind;
use crate::endpoint::wire::{BlockWire, quantity};

/// How many endpoints are asked how far a chain is settled.
const VOTERS_MAX: usize = 3;

/// How far the chain is settled, by tag.
#[derive(Debug, Default)]
pub(super) struct Settled {
    tags: Mutex<HashMap<&'static str, Tagged>>,
}

#[derive(Debug, Default)]
struct Tagged {
    /// The highest block that was agreed on; it never goes back.
    mark: Option<Block>,
    lone: LoneVoice,
}

fn block_of(wire: BlockWire) -> Option<Block> {
    let at = wire.at()?;
    Some(Block { at, transactions: wire.transactions() })
}

/// The block of the canonical head.
pub(super) async fn latest(router: &Router) -> Result<Option<Block>, ChainUnavailable> {
    let Some(head) = router.head() else {
        return Err(ChainUnavailable("no endpoint has told its head yet".to_owned()));
    };
    let readers = router.readers(Needs::Block(head.number), Instant::now());
    let params = json!([head.hash.to_string(), false]);
    let by_hash = router
        .read(&readers, "eth_getBlockByHash", params, |_, answer: Result<Option<BlockWire>, _>| {
            let block = answer.map_err(|error| error.to_string())?;
            block.and_then(block_of).filter(|b| b.at == head).ok_or("not found".to_owned())
        })
        .await;
    match by_hash {
        Ok(block) => Ok(Some(block)),
        // Reorganised away since: what stands at its height will do.
        Err(_) => by_number(router, head.number).await,
    }
}

/// The block at a height, `None` above the canonical head.
pub(super) async fn by_number(
    router: &Router,
    number: u64,
) -> Result<Option<Block>, ChainUnavailable> {
    if router.head().is_some_and(|head| number > head.number) {
        return Ok(None);
    }
    let readers = router.readers(Needs::Block(number), Instant::now());
    let params = json!([quantity(number), false]);
    let mut missing = 0;
    let found = router
        .read(
            &readers,
            "eth_getBlockByNumber",
            params,
            |_, answer: Result<Option<BlockWire>, _>| match answer
                .map_err(|error| error.to_string())?
                .and_then(block_of)
            {
                Some(block) if block.at.number == number => Ok(block),
                Some(block) => Err(format!("gave block {}", block.at.number)),
                None => {
                    missing += 1;
                    Err("not found".to_owned())
                }
            },
        )
        .await;
    match found {
        Ok(block) => Ok(Some(block)),
        Err(_) if missing > 0 && missing == readers.len() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The block up to which the chain is settled, by the word of two endpoints where several are
/// configured ([`LoneVoice`]): late is safe, early is not (I8).
pub(super) async fn settled(
    router: &Router,
    marks: &Settled,
    tag: BlockTag,
) -> Result<Option<Block>, ChainUnavailable> {
    let name = if tag == BlockTag::Safe { "safe" } else { "finalized" };
    let voters = router.voters(Needs::Head, VOTERS_MAX, Instant::now());
    let deadline = router.deadline_of(&voters);
    let answers = join_all(voters.iter().map(async |member| {
        let params = json!([name, false]);
        let call = member.endpoint.call_until("eth_getBlockByNumber", params, deadline);
        (member.endpoint.name(), call.await)
    }))
    .await;
    let (mut blocks, mut said_none, mut refusals) = (Vec::new(), false, Vec::new());
    let head = router.head().map_or(u64::MAX, |head| head.number);
    for (endpoint, answer) in answers {
        match answer {
            Ok(block) => match Option::<BlockWire>::and_then(block, block_of) {
                Some(block) if block.at.number <= head => {
                    refusals.push(format!("{endpoint}: {}, by its word alone", block.at.number));
                    blocks.push(block);
                }
                Some(_) => refusals.push(format!("{endpoint}: settled above the head")),
                None => said_none = true,
            },
            // A node without the tag says so as an error, in many ways.
            Err(error) if error.kind == RpcErrorKind::Node => said_none = true,
            Err(error) => refusals.push(format!("{endpoint}: {error}")),
        }
    }
    let lacks_tag = blocks.is_empty() && said_none;
    let mut tags = marks.tags.lock().unwrap_or_else(PoisonError::into_inner);
    let tagged = tags.entry(name).or_default();
    let (configured, after) = (router.readers_configured(), router.config.lone_voice_after);
    if tagged.lone.is_enough(blocks.len(), configured, Instant::now(), after) {
        let number = agreed(blocks.iter().map(|block| block.at.number));
        let block = blocks.into_iter().find(|block| Some(block.at.number) == number);
        let is_lower = tagged.mark.as_ref().is_some_and(|mark| Some(mark.at.number) > number);
        tagged.mark = if is_lower { tagged.mark.take() } else { block };
    }
    match &tagged.mark {
        Some(mark) => Ok(Some(mark.clone())),
        None if lacks_tag => Ok(None),
        None => Err(unavailable(name, &refusals)),
    }
}
