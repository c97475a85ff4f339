//! Nonces that no managed transaction has: those that came back, and those that callers hold or used. The
//! store has the truth; only this worker changes it while it holds the lease.

use std::collections::BTreeSet;

use tollgate_model::Nonce;
use tollgate_model::fill::FillWith;

#[derive(Debug, Default)]
pub(in crate::worker) struct NoncePool {
    /// Free, and handed out before the cursor moves.
    recyclable: BTreeSet<Nonce>,
    /// Reserved by callers.
    reserved: BTreeSet<Nonce>,
    /// Of the free ones, those that an operator wants to be filled by placeholders.
    marked: BTreeSet<Nonce>,
    /// Used by callers, and not mined yet as far as is known.
    used: BTreeSet<Nonce>,
    /// The nonces that callers had used before this worker began are loaded.
    is_used_loaded: bool,
}

impl NoncePool {
    pub(in crate::worker) const fn recyclable(&self) -> &BTreeSet<Nonce> {
        &self.recyclable
    }

    pub(in crate::worker) const fn reserved(&self) -> &BTreeSet<Nonce> {
        &self.reserved
    }

    /// The lowest that is free or used: the chain may have passed it.
    pub(in crate::worker) fn lowest(&self) -> Option<Nonce> {
        self.recyclable.first().into_iter().chain(self.used.first()).min().copied()
    }

    pub(in crate::worker) fn is_empty(&self) -> bool {
        self.recyclable.is_empty() && self.reserved.is_empty() && self.used.is_empty()
    }

    /// True if no caller holds a nonce and no operator waits for one to be filled.
    pub(super) fn is_done(&self) -> bool {
        self.reserved.is_empty() && !self.has_marked()
    }

    pub(in crate::worker) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn put_back(&mut self, nonce: Nonce) {
        self.reserved.remove(&nonce);
        self.recyclable.insert(nonce);
    }

    /// A transaction has it now, or the chain has passed it.
    pub(in crate::worker) fn take(&mut self, nonce: Nonce) {
        self.recyclable.remove(&nonce);
    }

    pub(in crate::worker) fn reserve(&mut self, nonce: Nonce) {
        self.recyclable.remove(&nonce);
        self.reserved.insert(nonce);
    }

    /// A caller used its nonce.
    pub(in crate::worker) fn spend(&mut self, nonce: Nonce) {
        self.reserved.remove(&nonce);
        self.used.insert(nonce);
    }

    /// Adds what callers had used before this worker began.
    pub(in crate::worker) fn add_used(&mut self, nonces: Vec<Nonce>) {
        self.used.extend(nonces);
        self.is_used_loaded = true;
    }

    pub(in crate::worker) const fn is_used_loaded(&self) -> bool {
        self.is_used_loaded
    }

    pub(in crate::worker) fn is_used(&self, nonce: Nonce) -> bool {
        self.used.contains(&nonce)
    }

    /// Drops what callers used and operators marked below the chain's count.
    pub(in crate::worker) fn drop_below(&mut self, mined: Nonce) {
        self.used.retain(|nonce| *nonce >= mined);
        self.marked.retain(|nonce| *nonce >= mined);
    }

    /// Notes what is to fill a free nonce.
    pub(in crate::worker) fn set_filled_with(&mut self, nonce: Nonce, with: FillWith) {
        match with {
            FillWith::Placeholder => self.marked.insert(nonce),
            FillWith::Next => self.marked.remove(&nonce),
        };
        self.used.remove(&nonce);
    }

    pub(in crate::worker) fn is_marked(&self, nonce: Nonce) -> bool {
        self.marked.contains(&nonce) && self.recyclable.contains(&nonce)
    }

    pub(in crate::worker) fn has_marked(&self) -> bool {
        !self.marked.is_disjoint(&self.recyclable)
    }

    /// Nonces that callers fill by themselves: they are no holes.
    pub(in crate::worker) fn with_callers(&self) -> BTreeSet<Nonce> {
        self.reserved.union(&self.used).copied().collect()
    }
}
