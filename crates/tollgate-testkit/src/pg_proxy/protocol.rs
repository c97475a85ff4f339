//! Splits what a client sends to PostgreSQL into messages.

use std::collections::HashMap;

/// A complete message.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    /// The statement that it executes, in lower case and without comments; empty if there is none.
    pub(super) sql: String,
}

/// Reassembles a client's messages and remembers the statements that it has prepared.
#[derive(Default)]
pub(super) struct ClientMessages {
    buffer: Vec<u8>,
    /// The first message has no type byte in front of its length.
    started: bool,
    prepared: HashMap<Vec<u8>, String>,
}

impl ClientMessages {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    pub(super) fn next(&mut self) -> Option<Message> {
        let type_bytes = usize::from(self.started);
        let length = self.buffer.get(type_bytes..type_bytes + 4)?;
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let end = type_bytes + length;
        if self.buffer.len() < end {
            return None;
        }
        let rest = self.buffer.split_off(end);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let sql = if self.started { self.executed(bytes[0], &bytes[5..]) } else { String::new() };
        self.started = true;
        Some(Message { bytes, sql })
    }

    fn executed(&mut self, kind: u8, body: &[u8]) -> String {
        let mut texts = body.split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        let normalised = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).to_lowercase();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
            lines.collect::<Vec<_>>().join("\n")
        };
        match kind {
            b'Q' => normalised(text()),
            // Parse: a name and its statement.
            b'P' => {
                let name = text().to_vec();
                self.prepared.insert(name, normalised(text()));
                String::new()
            }
            // Bind: the portal, and the statement's name.
            b'B' => {
                text();
                self.prepared.get(text()).cloned().unwrap_or_default()
            }
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], length.as_slice(), body].concat()
    }

    #[test]
    fn messages_are_reassembled_and_prepared_statements_known_by_name() {
        let start = [8u32.to_be_bytes(), [0, 3, 0, 0]].concat();
        let sent = [
            start.clone(),
            message(b'Q', b"BEGIN\0"),
            message(b'P', b"s1\0-- Until the commit.\nInsert into managed_tx\0\0\0"),
            message(b'B', b"\0s1\0\0\0"),
            message(b'Q', b"commit\0"),
        ];
        let (mut messages, mut received) = (ClientMessages::default(), Vec::new());
        for byte in sent.concat() {
            messages.push(&[byte]);
            received.extend(messages.next());
        }
        assert!(received.iter().map(|message| &message.bytes).eq(&sent));
        let sql: Vec<&str> = received.iter().map(|message| message.sql.as_str()).collect();
        assert_eq!(sql, ["", "begin", "", "insert into managed_tx", "commit"]);
    }
}
