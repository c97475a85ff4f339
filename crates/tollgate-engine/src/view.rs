//! The canonical chain as one pass saw it: a number always means one block.

use std::collections::VecDeque;

use tollgate_model::B256;
use tollgate_model::finality::ChainHeight;
use tollgate_model::port::chain::BlockRef;

/// Consecutive blocks up to the head, linked by their parents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChainView {
    blocks: VecDeque<BlockRef>,
    /// The block that the finality rule's tag names, where it has one.
    pub tagged: Option<u64>,
}

/// What a view says about a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is in the canonical chain.
    Canonical,
    /// Another block is in its place, or the chain ends below it.
    Orphaned,
    /// It lies below what the view holds.
    Older,
}

impl ChainView {
    /// The newest block.
    pub fn head(&self) -> Option<BlockRef> {
        self.blocks.back().copied()
    }

    /// The heights by which finality is judged; `None` before the first block.
    pub fn height(&self) -> Option<ChainHeight> {
        self.head().map(|head| ChainHeight { head: head.number, tagged: self.tagged })
    }

    /// The block with a number, if the view holds it.
    pub fn at(&self, number: u64) -> Option<BlockRef> {
        let first = self.blocks.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.blocks.get(place).copied()
    }

    /// What the view says about a block.
    pub fn standing(&self, number: u64, hash: B256) -> Standing {
        match (self.at(number), self.blocks.front()) {
            (Some(block), _) if block.hash == hash => Standing::Canonical,
            (Some(_), _) => Standing::Orphaned,
            (None, Some(first)) if number > first.number => Standing::Orphaned,
            (None, _) => Standing::Older,
        }
    }

    /// The hashes from a block on to the head: its confirmations.
    pub fn hashes_from(&self, number: u64) -> Vec<B256> {
        self.blocks.iter().filter(|b| b.number >= number).map(|b| b.hash).collect()
    }

    /// Puts blocks, oldest first and linked to what is there, in the place of everything from the
    /// first one's number on; keeps at most `length`. Returns how many blocks were replaced.
    pub(crate) fn extend(&mut self, added: &[BlockRef], length: usize) -> usize {
        let Some(first) = added.first() else { return 0 };
        let before = self.blocks.len();
        self.blocks.retain(|block| block.number < first.number);
        let replaced = before - self.blocks.len();
        if self.blocks.back().is_some_and(|last| last.hash != first.parent) {
            // Not linked: nothing that is older can be vouched for.
            self.blocks.clear();
        }
        self.blocks.extend(added);
        while self.blocks.len() > length.max(1) {
            self.blocks.pop_front();
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64, fork: u8) -> BlockRef {
        let hash = |n: u64, fork: u8| {
            B256::from(
                [[fork; 24].as_slice(), &n.to_be_bytes()].concat().try_into().unwrap_or([0; 32]),
            )
        };
        BlockRef { number, hash: hash(number, fork), parent: hash(number - 1, fork) }
    }

    fn linked(parent: BlockRef, number: u64, fork: u8) -> BlockRef {
        BlockRef { parent: parent.hash, ..block(number, fork) }
    }

    #[test]
    fn a_longer_branch_replaces_what_it_forks_from() {
        let mut view = ChainView::default();
        assert_eq!(view.extend(&[block(5, 1), block(6, 1), block(7, 1)], 10), 0);
        let fork = linked(block(5, 1), 6, 2);
        assert_eq!(view.extend(&[fork, linked(fork, 7, 2), linked(block(7, 2), 8, 2)], 10), 2);
        assert_eq!(view.standing(5, block(5, 1).hash), Standing::Canonical);
        assert_eq!(view.standing(6, block(6, 1).hash), Standing::Orphaned);
        assert_eq!(view.standing(6, fork.hash), Standing::Canonical);
        assert_eq!(view.standing(4, B256::ZERO), Standing::Older);
        assert_eq!(view.standing(9, B256::ZERO), Standing::Orphaned);
        assert_eq!(view.hashes_from(7).len(), 2);
    }

    #[test]
    fn a_view_forgets_what_it_cannot_link_and_what_is_too_old() {
        let mut view = ChainView::default();
        view.extend(&[block(5, 1), block(6, 1)], 10);
        view.extend(&[block(7, 3)], 10);
        assert_eq!(view.at(6), None, "it is not the parent of 7");
        view.extend(&(8..30).map(|n| block(n, 3)).collect::<Vec<_>>(), 4);
        assert_eq!(view.head().map(|head| head.number), Some(29));
        assert_eq!(view.at(25), None);
    }
}
