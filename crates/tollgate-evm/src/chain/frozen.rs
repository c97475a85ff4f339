//! A chain that does not change while it is looked at.
//!
//! Within one pass a block number always means one block: what was read once is not asked for
//! again, and what does not fit its neighbours by parent hash ends the pass. Owns what one pass has
//! read; is thrown away with it.

use std::collections::BTreeMap;

use thiserror::Error;
use tollgate_model::port::chain::{Block, BlockRef, BlockTag, Chain, ChainUnavailable};

/// How many blocks one pass may hold (I13).
const BLOCKS_MAX: usize = 4_096;

/// Why a pass can't go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ViewError {
    /// The chain could not be asked.
    #[error(transparent)]
    Unavailable(#[from] ChainUnavailable),
    /// The chain changed under the pass: drop it and begin anew.
    #[error("the chain was reorganised around block {0} meanwhile")]
    Torn(u64),
    /// The pass is longer than it may be: go on from a newer view.
    #[error("a pass holds at most {BLOCKS_MAX} blocks")]
    TooLong,
}

/// One pass over a chain, up to the head with which it began.
pub struct FrozenView<'a> {
    chain: &'a dyn Chain,
    head: BlockRef,
    blocks: BTreeMap<u64, Block>,
}

impl<'a> FrozenView<'a> {
    /// Freezes the chain at a head.
    pub const fn at(chain: &'a dyn Chain, head: BlockRef) -> Self {
        Self { chain, head, blocks: BTreeMap::new() }
    }

    /// The head of this pass.
    pub const fn head(&self) -> BlockRef {
        self.head
    }

    /// The block of a number, the same one each time; `None` above the head.
    ///
    /// # Errors
    /// [`ViewError::Torn`] if it does not fit the head or the blocks beside it.
    pub async fn block(&mut self, number: u64) -> Result<Option<&Block>, ViewError> {
        if number > self.head.number {
            return Ok(None);
        }
        if !self.blocks.contains_key(&number) {
            if self.blocks.len() >= BLOCKS_MAX {
                return Err(ViewError::TooLong);
            }
            let block = self.chain.block(BlockTag::Number(number)).await?;
            let block = block.ok_or(ViewError::Torn(number))?;
            if !self.fits(number, &block) {
                return Err(ViewError::Torn(number));
            }
            self.blocks.insert(number, block);
        }
        Ok(self.blocks.get(&number))
    }

    fn fits(&self, number: u64, block: &Block) -> bool {
        let at = |number: u64| self.blocks.get(&number).map(|block| block.at);
        let above = match number.checked_add(1) {
            Some(above) if above == self.head.number => Some(self.head),
            Some(above) => at(above),
            None => None,
        };
        let below = number.checked_sub(1).and_then(at);
        block.at.number == number
            && (number != self.head.number || block.at == self.head)
            && above.is_none_or(|above| above.parent == block.at.hash)
            && below.is_none_or(|below| below.hash == block.at.parent)
    }
}
