//! Rules on the settings of traces.

use super::events::without;
use super::{Rules, Settings};
use crate::features;

impl Rules<'_> {
    pub(super) fn traces(&mut self, settings: &Settings) {
        if settings.traces.otlp_url.is_some()
            && let Some(reason) = without("otlp", features::HAS_OTLP)
        {
            self.refuse("traces.otlp_url", reason);
        }
    }
}
