//! Rules on the settings of events.

use tollgate_http::{RefusedAddresses, http_url};

use super::{Rules, Settings};
use crate::config::types::EventMode;
use crate::features;

impl Rules<'_> {
    pub(super) fn events(&mut self, settings: &Settings) {
        const MODE: &str = "events.mode";
        const URL: &str = "events.webhook.url";
        const SECRET: &str = "events.webhook.secret";
        let webhook = &settings.webhook;
        let url = webhook.url.as_ref().and_then(|url| http_url(&url.0).ok());
        if !webhook.allow_private && url.is_some_and(|url| RefusedAddresses::Private.named_by(&url))
        {
            self.refuse(
                URL,
                "is a private address: set events.webhook.allow_private if the receiver is there",
            );
        }
        let has_secret =
            self.values.is_given(SECRET) || self.values.is_given("events.webhook.secret_file");
        let has_url = self.values.is_given(URL);
        match (has_url, has_secret) {
            (true, false) => self.refuse(
                URL,
                "needs a secret: give events.webhook.secret_file or TOLLGATE_EVENTS_WEBHOOK_SECRET",
            ),
            (false, true) => self.refuse(SECRET, "needs events.webhook.url, which is not given"),
            (true, true) | (false, false) => {}
        }
        self.nats(settings.events.mode, features::HAS_NATS);
        if settings.events.mode == EventMode::Webhook && !has_url {
            self.refuse(MODE, "webhook needs events.webhook.url, which is not given");
        }
        if settings.events.mode != EventMode::Poll && !settings.events.enabled {
            self.refuse(MODE, "needs events.enabled: without it there are no events to deliver");
        }
    }

    /// `has_nats`: this binary was built with the client of NATS.
    fn nats(&mut self, mode: EventMode, has_nats: bool) {
        const MODE: &str = "events.mode";
        const URL: &str = "events.nats.url";
        if mode != EventMode::Nats {
            return;
        }
        if let Some(reason) = without("nats", has_nats) {
            self.refuse(MODE, reason);
        }
        if !self.values.is_given(URL) && !self.is_refused(URL) {
            self.refuse(MODE, "nats needs events.nats.url, which is not given");
        }
    }
}

/// The reason why a setting needs another binary.
pub(super) fn without(feature: &str, is_built_in: bool) -> Option<String> {
    let how = format!("cargo build --release -p tollgate-server --features {feature}");
    (!is_built_in)
        .then(|| format!("this binary was built without {feature}: build it with `{how}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_without_a_feature_says_how_to_build_it() {
        assert_eq!(without("nats", true), None);
        assert!(without("nats", false).is_some_and(|why| why.contains("--features nats")));
    }
}
