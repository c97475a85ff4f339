//! Remembers sizes and times of the blocks that were read last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollgate_model::port::chain::Block;
use tollgate_model::{B256, Timestamp};

/// Blocks that are remembered (I13).
const RECENT_MAX: usize = 256;

/// The number of transactions in a block, and its time.
#[derive(Clone, Copy)]
pub(super) struct RecentBlock {
    hash: B256,
    pub(super) size: usize,
    pub(super) time: Option<Timestamp>,
}

/// The blocks that were read last.
#[derive(Default)]
pub(super) struct RecentBlocks(Mutex<VecDeque<RecentBlock>>);

impl RecentBlocks {
    pub(super) fn note(&self, block: &Block) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (hash, size) = (block.at.hash, block.transactions.len());
        recent.push_back(RecentBlock { hash, size, time: block.time });
        while recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }

    pub(super) fn find(&self, block: B256) -> Option<RecentBlock> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().rev().find(|it| it.hash == block).copied()
    }
}
