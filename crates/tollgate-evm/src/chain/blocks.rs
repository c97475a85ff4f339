//! Blocks by number, and the block of the head.
//!
//! A block exists if one endpoint delivers it; it is missing only if every endpoint that should have it
//! lacks it.

use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::chain::{Block, ChainUnavailable};

use super::router::{Needs, Router};
use crate::endpoint::json::{BlockJson, quantity};

pub(super) fn block_of(wire: BlockJson) -> Option<Block> {
    let at = wire.at()?;
    let time = wire.time();
    Some(Block { at, transactions: wire.transactions(), time })
}

/// The block of the canonical head.
pub(super) async fn latest(router: &Router) -> Result<Option<Block>, ChainUnavailable> {
    let Some(head) = router.head() else {
        return Err(ChainUnavailable("no endpoint has told its head yet".to_owned()));
    };
    let readers = router.readers(Needs::Block(head.number), Instant::now());
    let params = json!([head.hash.to_string(), false]);
    let by_hash = router
        .read(&readers, "eth_getBlockByHash", params, |_, answer: Result<Option<BlockJson>, _>| {
            let block = answer.map_err(|error| error.to_string())?;
            block.and_then(block_of).filter(|b| b.at == head).ok_or("not found".to_owned())
        })
        .await;
    match by_hash {
        Ok(block) => {
            router.note_delivered(block.at);
            Ok(Some(block))
        }
        // Replaced by a reorg meanwhile: the block that is now at its height will do.
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
            |_, answer: Result<Option<BlockJson>, _>| match answer
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
        Ok(block) => {
            router.note_delivered(block.at);
            Ok(Some(block))
        }
        Err(_) if missing > 0 && missing == readers.len() => Ok(None),
        Err(error) => Err(error),
    }
}
