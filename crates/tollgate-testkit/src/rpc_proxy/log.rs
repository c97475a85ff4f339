//! The text of the calls that a proxy was sent, for tests of what an endpoint has seen.

use std::sync::{Arc, Mutex};

/// Nothing is kept before the recording is started.
#[derive(Clone, Default)]
pub(super) struct CallLog(Arc<Mutex<Option<Vec<String>>>>);

impl CallLog {
    pub(super) fn start(&self) {
        self.0.lock().unwrap().get_or_insert_default();
    }

    pub(super) fn note(&self, body: &[u8]) {
        if let Some(calls) = self.0.lock().unwrap().as_mut() {
            calls.push(String::from_utf8_lossy(body).to_lowercase());
        }
    }

    pub(super) fn count(&self, text: &str) -> usize {
        let text = text.to_lowercase();
        let calls = self.0.lock().unwrap();
        calls.iter().flatten().filter(|call| call.contains(&text)).count()
    }
}
