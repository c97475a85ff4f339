//! Gives each of several endpoints its share of the time of one question.

use std::sync::Arc;

use tokio::time::Instant;

use super::pool_member::PoolMember;

/// Endpoints one after the other, each with its deadline.
pub(super) struct InTurn<'a> {
    left: &'a [Arc<PoolMember>],
    deadline: Instant,
}

impl<'a> InTurn<'a> {
    pub(super) const fn new(left: &'a [Arc<PoolMember>], deadline: Instant) -> Self {
        Self { left, deadline }
    }
}

impl<'a> Iterator for InTurn<'a> {
    type Item = (&'a Arc<PoolMember>, Instant);

    fn next(&mut self) -> Option<Self::Item> {
        let now = Instant::now();
        let time = self.deadline.saturating_duration_since(now);
        let (member, behind) = self.left.split_first().filter(|_| !time.is_zero())?;
        // One that hangs must not use up the time of the next ones.
        let share = time / self.left.len() as u32;
        self.left = behind;
        Some((member, now + share))
    }
}
