//! The canonical chain as the tracker last saw it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tollgate_model::B256;
use tollgate_model::finality::ChainHeight;
use tollgate_model::port::chain::BlockRef;

/// Replaced blocks that are remembered (I13).
const LEFT_MAX: usize = 1_024;
/// Blocks below the view whose hashes are remembered (I13).
const OLDER_MAX: usize = 4_096;

/// Consecutive blocks up to the head, linked by their parents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChainView {
    blocks: VecDeque<BlockRef>,
    /// Blocks that the view held and that were replaced, oldest first.
    left: VecDeque<B256>,
    /// Blocks below the view that hold transactions of ours and were found to be canonical, by
    /// number. Only agreement is kept: a contradiction is one answer, and the next may differ.
    older: Arc<BTreeMap<u64, B256>>,
    /// The block that the finality rule's tag names, where it has one.
    pub tagged: Option<u64>,
}

/// The status of a block by a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The block is in the canonical chain.
    Canonical,
    /// Another block is in its place, or it was in this view and left it.
    Orphaned,
    /// The block is above the view's head: nothing is known yet.
    Ahead,
    /// The block is below the view: nothing is known.
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

    /// The status of a block.
    pub fn standing(&self, number: u64, hash: B256) -> Standing {
        match self.at(number).map(|block| block.hash) {
            Some(there) if there == hash => Standing::Canonical,
            Some(_) => Standing::Orphaned,
            None if self.older.get(&number) == Some(&hash) => Standing::Canonical,
            None if self.left.contains(&hash) => Standing::Orphaned,
            None if self.blocks.front().is_some_and(|first| number > first.number) => {
                Standing::Ahead
            }
            None => Standing::Older,
        }
    }

    /// True if a canonical block is consistent with the view: the view holds it, or lies above it.
    pub(crate) fn is_below_or_holds(&self, block: BlockRef) -> bool {
        match self.blocks.front() {
            Some(first) if block.number >= first.number => {
                self.at(block.number).is_some_and(|known| known.hash == block.hash)
            }
            Some(_) | None => true,
        }
    }

    /// The hashes from a block on to the head, and the number of the first of them: the block's
    /// confirmations, as far down as the view holds them.
    pub fn hashes_from(&self, number: u64) -> (u64, Vec<B256>) {
        let first = self.blocks.front().map_or(number, |first| first.number.max(number));
        let above = self.blocks.iter().filter(|block| block.number >= first);
        (first, above.map(|block| block.hash).collect())
    }

    /// Puts blocks, oldest first and linked to what is there, in the place of everything from the
    /// first one's number on; keeps at most `length`. Returns how many blocks were replaced.
    pub(crate) fn extend(&mut self, added: &[BlockRef], length: usize) -> usize {
        let Some(first) = added.first() else { return 0 };
        let kept = self.blocks.partition_point(|block| block.number < first.number);
        let replaced = self.blocks.split_off(kept);
        self.left.extend(replaced.iter().map(|block| block.hash));
        if self.blocks.back().is_none_or(|last| last.hash != first.parent) {
            // Not linked: older blocks may be of another branch.
            self.blocks.clear();
            self.older = Arc::default();
        }
        self.blocks.extend(added);
        // A replaced branch can become canonical again.
        self.left.retain(|hash| added.iter().all(|block| block.hash != *hash));
        while self.left.len() > LEFT_MAX {
            self.left.pop_front();
        }
        while self.blocks.len() > length.max(1) {
            self.blocks.pop_front();
        }
        replaced.len()
    }

    /// Remembers that a block below the view is canonical.
    pub(crate) fn confirm_older(&mut self, number: u64, hash: B256) {
        let older = Arc::make_mut(&mut self.older);
        older.insert(number, hash);
        while older.len() > OLDER_MAX {
            older.pop_first();
        }
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
    fn settled_block_counts_only_in_a_view_that_holds_it_or_is_above_it() {
        let mut view = ChainView::default();
        assert!(view.is_below_or_holds(block(5, 1)), "an empty view contradicts nothing");
        view.extend(&[block(5, 1), block(6, 1), block(7, 1)], 10);
        assert!(view.is_below_or_holds(block(6, 1)) && view.is_below_or_holds(block(4, 2)));
        assert!(!view.is_below_or_holds(block(6, 2)), "the view holds another branch");
        assert!(!view.is_below_or_holds(block(8, 1)), "the view is behind");
    }

    #[test]
    fn longer_branch_replaces_the_blocks_above_its_fork() {
        let mut view = ChainView::default();
        assert_eq!(view.extend(&[block(5, 1), block(6, 1), block(7, 1)], 10), 0);
        let fork = linked(block(5, 1), 6, 2);
        assert_eq!(view.extend(&[fork, linked(fork, 7, 2), linked(block(7, 2), 8, 2)], 10), 2);
        assert_eq!(view.standing(5, block(5, 1).hash), Standing::Canonical);
        assert_eq!(view.standing(6, block(6, 1).hash), Standing::Orphaned);
        assert_eq!(view.standing(6, fork.hash), Standing::Canonical);
        assert_eq!(view.standing(4, B256::ZERO), Standing::Older);
        assert_eq!(view.standing(9, B256::ZERO), Standing::Ahead, "not delivered yet");
        assert_eq!(view.hashes_from(7), (7, vec![block(7, 2).hash, block(8, 2).hash]));
        assert_eq!(view.hashes_from(2).0, 5, "the list begins where the view does");
    }

    #[test]
    fn block_above_a_shorter_branch_is_orphaned_only_if_the_view_held_it() {
        let mut view = ChainView::default();
        view.extend(&[block(5, 1), block(6, 1), block(7, 1), block(8, 1)], 10);
        view.extend(&[linked(block(5, 1), 6, 2)], 10);
        assert_eq!(view.standing(8, block(8, 1).hash), Standing::Orphaned);
        assert_eq!(view.standing(8, block(8, 2).hash), Standing::Ahead);
        view.extend(&[block(6, 1), block(7, 1)], 10);
        assert_eq!(view.standing(7, block(7, 1).hash), Standing::Canonical, "it came back");
    }

    #[test]
    fn block_below_the_view_is_canonical_once_confirmed_and_never_orphaned_by_another() {
        let mut view = ChainView::default();
        view.extend(&[block(50, 1)], 10);
        assert_eq!(view.standing(7, block(7, 1).hash), Standing::Older);
        view.confirm_older(7, block(7, 1).hash);
        assert_eq!(view.standing(7, block(7, 1).hash), Standing::Canonical);
        assert_eq!(view.standing(7, block(7, 2).hash), Standing::Older, "asked for by itself");
        view.extend(&[block(51, 1)], 10);
        assert_eq!(view.standing(7, block(7, 1).hash), Standing::Canonical);
        view.extend(&[block(50, 2), block(51, 2)], 10);
        assert_eq!(view.standing(7, block(7, 1).hash), Standing::Older, "the whole view changed");
        view.confirm_older(7, block(7, 1).hash);
        view.extend(&[block(60, 3)], 10);
        assert_eq!(view.standing(7, block(7, 1).hash), Standing::Older, "another branch, perhaps");
    }

    #[test]
    fn view_drops_blocks_that_are_not_linked_or_too_old() {
        let mut view = ChainView::default();
        view.extend(&[block(5, 1), block(6, 1)], 10);
        view.extend(&[block(7, 3)], 10);
        assert_eq!(view.at(6), None, "it is not the parent of 7");
        view.extend(&(8..30).map(|n| block(n, 3)).collect::<Vec<_>>(), 4);
        assert_eq!(view.head().map(|head| head.number), Some(29));
        assert_eq!(view.at(25), None);
    }
}
