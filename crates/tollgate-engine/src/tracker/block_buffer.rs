//! Blocks that were delivered before the view could take them, so that a retry does not read them again.

use std::collections::BTreeMap;

use tollgate_model::B256;
use tollgate_model::port::chain::{Block, BlockRef};

/// Blocks that are buffer at once when the view is behind.
pub(super) const AHEAD_MAX: u64 = 8;

/// Delivered blocks by number and hash; bounded (I13).
pub(super) struct BlockBuffer {
    blocks: BTreeMap<(u64, B256), Block>,
    /// Blocks to fetch at once.
    ahead: u64,
}

impl Default for BlockBuffer {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), ahead: 1 }
    }
}

impl BlockBuffer {
    /// Returns the number of blocks to fetch at once: twice as many after each fetch in which all were delivered, and
    /// a single one after the next block was missing. A head that is announced far above any block
    /// would cost a whole window of calls at each try.
    pub(super) const fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Notes a fetch: whether the first block of it was delivered, and whether all were.
    pub(super) fn note_fetch(&mut self, first: bool, all: bool) {
        self.ahead = match (first, all) {
            (false, _) => 1,
            (true, false) => (self.ahead / 2).max(1),
            (true, true) => (self.ahead * 2).min(AHEAD_MAX),
        };
    }

    /// Keeps a block, and at most `most` of them. The highest are dropped first, because the view needs the
    /// lowest next.
    pub(super) fn keep(&mut self, block: Block, most: usize) {
        self.blocks.insert((block.at.number, block.at.hash), block);
        while self.blocks.len() > most.max(1) {
            self.blocks.pop_last();
        }
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.of(number).next().is_some()
    }

    /// Takes a child of this block, and drops the blocks below it.
    pub(super) fn child_of(&mut self, parent: BlockRef) -> Option<Block> {
        let number = parent.number + 1;
        self.blocks = self.blocks.split_off(&(number, B256::ZERO));
        let child = self.of(number).find(|block| block.at.parent == parent.hash)?.at;
        self.blocks.remove(&(child.number, child.hash))
    }

    /// The parent of this block.
    pub(super) fn parent_of(&self, child: BlockRef) -> Option<Block> {
        self.blocks.get(&(child.number.checked_sub(1)?, child.parent)).cloned()
    }

    fn of(&self, number: u64) -> impl Iterator<Item = &Block> {
        self.blocks.range((number, B256::ZERO)..=(number, B256::repeat_byte(0xff))).map(|(_, b)| b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> Block {
        let hash = |number: u64| B256::left_padding_from(&number.to_be_bytes());
        let at = BlockRef { number, hash: hash(number), parent: hash(number - 1) };
        Block { at, transactions: Vec::new(), time: None }
    }

    #[test]
    fn window_grows_with_delivered_blocks_and_shrinks_to_one_after_a_missing_one() {
        let mut buffer = BlockBuffer::default();
        let mut windows = Vec::new();
        for (first, all) in [(true, true); 4].into_iter().chain([(true, false), (false, false)]) {
            windows.push(buffer.ahead());
            buffer.note_fetch(first, all);
        }
        assert_eq!((windows, buffer.ahead()), (vec![1, 2, 4, 8, 8, 4], 1));
    }

    #[test]
    fn full_store_evicts_the_highest_block_and_keeps_the_next_one_of_the_view() {
        let mut buffer = BlockBuffer::default();
        for number in 20..30 {
            buffer.keep(block(number), 5);
        }
        buffer.keep(block(11), 5);
        assert!(buffer.has(11) && buffer.has(23) && !buffer.has(24));
        assert_eq!(buffer.child_of(block(10).at), Some(block(11)));
    }
}
