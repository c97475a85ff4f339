//! Sessions of people who logged in with a key: random ids, kept in memory as hashes, bounded in number and time.
//!
//! A session is no right of its own: it names a key, and each request is judged by what the key allows then.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tollgate_model::access::KeyId;

/// Sessions at once (I13). The one that was used least recently gives way.
const SESSIONS_MAX: usize = 1_000;
/// Sessions of one key: beyond them its own give way, not those of others.
const OF_KEY_MAX: usize = 20;
/// A session ends when it was not used for this long,
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// or this long after its login.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// 256 random bits, as hex digits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// A new token. An error if the system has no random numbers.
    pub(crate) fn random() -> Result<Self, rustls::crypto::GetRandomFailed> {
        let mut bytes = [0; 32];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares hashes, so that the time does not depend on how much of the guess is right.
    pub(crate) fn is(&self, guess: &str) -> bool {
        hash(&self.0) == hash(guess)
    }
}

/// A session as its requests see it.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) key: KeyId,
    /// Forms of the session carry it.
    pub(crate) csrf: Token,
    began: Instant,
    used: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now - self.used >= IDLE_MAX || now - self.began >= AGE_MAX
    }
}

/// The sessions of a node, by the hash of their ids.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

impl Sessions {
    /// Begins a session; its id, which is kept as a hash only.
    pub(crate) fn begin(&self, key: KeyId) -> Result<Token, rustls::crypto::GetRandomFailed> {
        let (id, csrf, now) = (Token::random()?, Token::random()?, Instant::now());
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.values().filter(|session| session.key == key).count() >= OF_KEY_MAX {
            end_oldest(&mut sessions, |session| session.key == key);
        } else if sessions.len() >= SESSIONS_MAX {
            end_oldest(&mut sessions, |_| true);
        }
        sessions.insert(hash(id.as_str()), Session { key, csrf, began: now, used: now });
        Ok(id)
    }

    /// The session with this id, if it is not over.
    pub(crate) fn find(&self, id: &str) -> Option<Session> {
        let (now, mut sessions) = (Instant::now(), self.lock());
        let key = hash(id);
        let session = sessions.get_mut(&key)?;
        if session.is_over(now) {
            sessions.remove(&key);
            return None;
        }
        session.used = now;
        Some(session.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        self.lock().remove(&hash(id));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the one of some sessions that was used least recently.
fn end_oldest(sessions: &mut HashMap<[u8; 32], Session>, of: impl Fn(&Session) -> bool) {
    let some = sessions.iter().filter(|(_, session)| of(session));
    let oldest = some.min_by_key(|(_, session)| session.used).map(|(id, _)| *id);
    oldest.and_then(|oldest| sessions.remove(&oldest));
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> KeyId {
        KeyId::from_random([7; 12])
    }

    #[tokio::test(start_paused = true)]
    async fn session_ends_after_a_time_without_use_and_after_a_time_at_all() {
        let sessions = Sessions::default();
        let id = sessions.begin(key()).unwrap();
        let step = IDLE_MAX - Duration::from_secs(1);
        tokio::time::advance(step).await;
        assert!(sessions.find(id.as_str()).is_some(), "use prolongs it");
        tokio::time::advance(IDLE_MAX).await;
        assert!(sessions.find(id.as_str()).is_none(), "it was not used");
        let id = sessions.begin(key()).unwrap();
        for _ in 0..AGE_MAX.as_secs() / step.as_secs() {
            tokio::time::advance(step).await;
            assert!(sessions.find(id.as_str()).is_some());
        }
        tokio::time::advance(step).await;
        assert!(sessions.find(id.as_str()).is_none(), "it is too old, although it was used");
    }

    #[test]
    fn session_that_was_ended_is_not_found_and_its_id_is_not_kept() {
        let sessions = Sessions::default();
        let id = sessions.begin(key()).unwrap();
        assert!(sessions.lock().keys().all(|kept| kept != id.as_str().as_bytes()));
        assert_eq!(sessions.find(id.as_str()).unwrap().key, key());
        sessions.end(id.as_str());
        assert!(sessions.find(id.as_str()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn session_used_least_recently_gives_way_to_one_too_many() {
        let sessions = Sessions::default();
        let mut ids = Vec::new();
        for n in 0..SESSIONS_MAX {
            let mut bytes = [0; 12];
            bytes[n / OF_KEY_MAX % 10] = 1 + u8::try_from(n / OF_KEY_MAX / 10).unwrap();
            ids.push(sessions.begin(KeyId::from_random(bytes)).unwrap());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        sessions.find(ids[0].as_str()).unwrap();
        sessions.begin(KeyId::from_random([255; 12])).unwrap();
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(sessions.find(ids[0].as_str()).is_some());
        assert!(sessions.find(ids[1].as_str()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn logins_of_one_key_end_its_own_sessions_alone() {
        let sessions = Sessions::default();
        let other = sessions.begin(KeyId::from_random([8; 12])).unwrap();
        let mut ids = Vec::new();
        for _ in 0..=OF_KEY_MAX {
            tokio::time::advance(Duration::from_millis(1)).await;
            ids.push(sessions.begin(key()).unwrap());
        }
        assert!(sessions.find(other.as_str()).is_some());
        assert!(sessions.find(ids[0].as_str()).is_none());
        assert!(ids[1..].iter().all(|id| sessions.find(id.as_str()).is_some()));
    }

    #[test]
    fn token_is_equal_to_itself_alone() {
        let token = Token::random().unwrap();
        assert!(token.is(token.as_str()));
        assert!(!token.is("") && !token.is(&token.as_str()[1..]));
        assert!(token != Token::random().unwrap());
    }
}
