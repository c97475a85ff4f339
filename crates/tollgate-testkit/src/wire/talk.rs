//! What a client says to PostgreSQL, message by message.

use std::collections::HashMap;

/// A message, whole.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    /// The statement that it has the server carry out, in lower case and without comments; empty if
    /// it has none.
    pub(super) sql: String,
}

/// Puts a client's messages together, and knows the statements that it has prepared.
#[derive(Default)]
pub(super) struct Talk {
    heard: Vec<u8>,
    /// The first message has no kind in front of its length.
    begun: bool,
    prepared: HashMap<Vec<u8>, String>,
}

impl Talk {
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    /// The next message, if all of it was heard.
    pub(super) fn next(&mut self) -> Option<Message> {
        let kind_bytes = usize::from(self.begun);
        let length = self.heard.get(kind_bytes..kind_bytes + 4)?;
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let end = kind_bytes + length;
        if self.heard.len() < end {
            return None;
        }
        let rest = self.heard.split_off(end);
        let bytes = std::mem::replace(&mut self.heard, rest);
        let sql = if self.begun { self.carried_out(bytes[0], &bytes[5..]) } else { String::new() };
        self.begun = true;
        Some(Message { bytes, sql })
    }

    fn carried_out(&mut self, kind: u8, body: &[u8]) -> String {
        let mut texts = body.split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        let words = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).to_lowercase();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
            lines.collect::<Vec<_>>().join("\n")
        };
        match kind {
            b'Q' => words(text()),
            // Parse: a name and its statement.
            b'P' => {
                let name = text().to_vec();
                self.prepared.insert(name, words(text()));
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
    fn messages_are_put_together_and_prepared_statements_are_known_by_name() {
        let start = [8u32.to_be_bytes(), [0, 3, 0, 0]].concat();
        let said = [
            start.clone(),
            message(b'Q', b"BEGIN\0"),
            message(b'P', b"s1\0-- Until the commit.\nInsert into managed_tx\0\0\0"),
            message(b'B', b"\0s1\0\0\0"),
            message(b'Q', b"commit\0"),
        ];
        let (mut talk, mut heard) = (Talk::default(), Vec::new());
        for byte in said.concat() {
            talk.hear(&[byte]);
            heard.extend(talk.next());
        }
        assert!(heard.iter().map(|message| &message.bytes).eq(&said));
        let sql: Vec<&str> = heard.iter().map(|message| message.sql.as_str()).collect();
        assert_eq!(sql, ["", "begin", "", "insert into managed_tx", "commit"]);
    }
}
