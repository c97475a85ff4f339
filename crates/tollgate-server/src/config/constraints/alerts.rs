//! Rules on the settings of alerts.

use super::{Rules, Settings};
use crate::config::parse::duration_text;

/// The longest name of a sink.
const SINK_NAME_MAX: usize = 100;

impl Rules<'_> {
    pub(super) fn alerts(&mut self, settings: &Settings) {
        let alerts = &settings.alerts;
        for (place, entry) in alerts.sinks.iter().enumerate() {
            let name = &entry.name;
            if name.is_empty() || name.len() > SINK_NAME_MAX {
                self.refuse("alerts.sinks", format!("a name has 1 to {SINK_NAME_MAX} bytes"));
            }
            if alerts.sinks[..place].iter().any(|other| other.name == *name) {
                self.refuse("alerts.sinks", format!("the name {name:?} is given twice"));
            }
            if let Err(why) = entry.sink() {
                self.refuse("alerts.sinks", format!("sink {name:?} {why}"));
            }
        }
        let least = alerts.interval * 3;
        if alerts.resolve_after < least {
            let reason = format!(
                "must be at least three times alerts.interval, {}: an alert would end between two reports",
                duration_text(least)
            );
            self.refuse_pair("alerts.resolve_after", "alerts.interval", reason);
        }
    }
}
