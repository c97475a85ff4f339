//! The events that a caller gets.

use std::sync::Arc;

use tollgate_model::access::Role;
use tollgate_model::event::NumberedEvent;

use super::EventFilter;
use crate::http::access::Caller;
use crate::http::access::sight::Sight;
use crate::http::problem::Problem;
use crate::http::served_chains::Chains;

/// A caller with what it asked for. Every event on its way to a caller of the API passes here.
pub(super) struct Viewer {
    chains: Chains,
    caller: Caller,
    filter: EventFilter,
}

impl Viewer {
    pub(super) fn new(chains: Chains, caller: Caller, filter: EventFilter) -> Self {
        Self { chains, caller, filter }
    }

    /// The caller with what its key allows now: streams last, and meanwhile a key may be revoked.
    pub(super) async fn caller_now(&self) -> Result<Caller, Problem> {
        let (Some(keys), Some(id)) = (self.chains.api_keys(), self.caller.key_id()) else {
            return Ok(self.caller.clone());
        };
        let caller = Caller::with_key(keys.known(id).await?.key(), self.caller.remote());
        caller.require(&[Role::Read])?;
        Ok(caller)
    }

    /// The events of a part that the caller asked for and sees.
    ///
    /// # Errors
    /// The caller sees nothing any more, or the store can't be read.
    pub(super) async fn shown(
        &self,
        mut events: Vec<Arc<NumberedEvent>>,
    ) -> Result<Vec<Arc<NumberedEvent>>, Problem> {
        events.retain(|event| self.filter.wants(event));
        if events.is_empty() {
            return Ok(events);
        }
        let caller = self.caller_now().await?;
        let mut sight = Sight::new(&**self.chains.store(), &caller);
        let mut shown = Vec::with_capacity(events.len());
        for event in events {
            if sight.has_event(&event.event).await? {
                shown.push(event);
            }
        }
        Ok(shown)
    }
}
