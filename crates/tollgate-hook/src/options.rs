//! The options of a hook.

use std::fmt;
use std::time::Duration;

use hyper::Uri;
use thiserror::Error;
use tollgate_http::{BadUrl, http_url};

use crate::secret::HookSecret;

/// The pause before the second try; each further one is twice as long, to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The URL of a hook, and the limits of a question.
#[derive(Clone)]
pub struct HookOptions {
    /// Its URL. Never shown: the path may hold a key of the receiver.
    pub(crate) uri: Uri,
    /// Signs the questions.
    pub(crate) secret: HookSecret,
    /// The longest time for one try (`stuck.hook.timeout`).
    pub(crate) timeout: Duration,
    /// Tries after the first (`stuck.hook.retries`).
    pub(crate) retries: u32,
    /// A link-local address may be called (`stuck.hook.allow_link_local`).
    pub(crate) allows_link_local: bool,
}

/// The reason why a hook can't be used. Holds nothing of what was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadHook {
    /// Not a URL that can be posted to.
    #[error("must be a URL that starts with http:// or https://")]
    Url,
    /// The signature says who asks.
    #[error("must not hold a user or a password: the request is signed")]
    UserInUrl,
    /// Not a secret of the standard.
    #[error("must be whsec_ and base64")]
    SecretForm,
    /// Too short to be safe, or longer than the standard allows.
    #[error("must be whsec_ and 24 to 64 bytes in base64")]
    SecretLength,
}

impl HookOptions {
    /// The longest time for one try.
    pub const TIMEOUT: Duration = Duration::from_secs(5);
    /// Tries after the first.
    pub const RETRIES: u32 = 2;

    /// A hook with the default limits.
    pub fn new(url: &str, secret: HookSecret) -> Result<Self, BadHook> {
        let uri = Self::check_url(url)?;
        Ok(Self {
            uri,
            secret,
            timeout: Self::TIMEOUT,
            retries: Self::RETRIES,
            allows_link_local: false,
        })
    }

    /// The same with another timeout and number of retries.
    #[must_use]
    pub fn with_patience(self, timeout: Duration, retries: u32) -> Self {
        Self { timeout, retries, ..self }
    }

    /// The same with link-local addresses allowed or refused. They are refused by default, because clouds
    /// serve the credentials of the machine there.
    #[must_use]
    pub fn with_link_local(self, allows_link_local: bool) -> Self {
        Self { allows_link_local, ..self }
    }

    /// Checks the URL of a hook.
    pub fn check_url(url: &str) -> Result<Uri, BadHook> {
        http_url(url).map_err(|bad| match bad {
            BadUrl::Form => BadHook::Url,
            BadUrl::User => BadHook::UserInUrl,
        })
    }

    /// The longest time that an answer can take, with all tries, pauses and the wait for a free
    /// place: what is not there by then is a noop.
    pub fn longest(&self) -> Duration {
        let pauses: Duration = (1..=self.retries).map(pause_before).sum();
        self.timeout.saturating_mul(self.retries.saturating_add(2)).saturating_add(pauses)
    }
}

/// The pause before the `retry`th further try, from 1.
pub(crate) fn pause_before(retry: u32) -> Duration {
    let doublings = retry.saturating_sub(1).min(16);
    PAUSE_FIRST.saturating_mul(1 << doublings).min(PAUSE_MAX)
}

impl fmt::Debug for HookOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        f.debug_struct("HookOptions")
            .field("host", &host)
            .field("timeout", &self.timeout)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_at_a_url_without_a_user() {
        for url in ["http://127.0.0.1:9/a?b=c", "https://hooks.example.com", " https://[::1]:1/ "] {
            assert!(HookOptions::check_url(url).is_ok(), "{url}");
        }
        for url in ["", "hooks.example.com", "/a", "ftp://a", "ws://a", "http://", "http:// a"] {
            assert_eq!(HookOptions::check_url(url).err(), Some(BadHook::Url), "{url}");
        }
        let user = HookOptions::check_url("https://me:hunter2@a/").unwrap_err();
        assert_eq!(user, BadHook::UserInUrl);
        assert!(!user.to_string().contains("hunter2"));
    }

    #[test]
    fn pauses_grow_to_a_limit_and_are_part_of_the_longest_wait() {
        let millis = [1, 2, 3, 4, 5, 6, u32::MAX].map(|retry| pause_before(retry).as_millis());
        assert_eq!(millis, [200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
        let secret = HookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let options = HookOptions::new("http://a/topsecret", secret).unwrap();
        assert_eq!(options.longest(), Duration::from_millis(4 * 5_000 + 200 + 400));
        assert!(!format!("{options:?}").contains("topsecret"));
    }
}
