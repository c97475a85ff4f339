//! Rules on the settings of alerts.

use tollgate_http::{http_url, names_link_local};

use super::{Rules, Settings};
use crate::config::parse::duration_text;
use crate::config::value::Problem;

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
            let has_both = entry.secret.is_some() && entry.secret_file.is_some();
            // A secret in a file is read later, with the other files.
            if (has_both || entry.secret_file.is_none())
                && let Err(why) = entry.sink()
            {
                self.refuse("alerts.sinks", format!("sink {name:?} {why}"));
            }
            let Some(url) = entry.url.as_ref().filter(|_| !entry.allow_link_local) else {
                continue;
            };
            if http_url(&url.value.0).is_ok_and(|url| names_link_local(&url)) {
                let reason = format!(
                    "sink {name:?} url is a link-local address, where clouds serve the credentials of the \
                     machine: set its allow_link_local if the receiver is there"
                );
                self.problems.push(Problem::new(url.source.clone(), "alerts.sinks", reason));
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
