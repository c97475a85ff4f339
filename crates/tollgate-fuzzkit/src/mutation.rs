//! Changes inputs as a fuzzer would, but without its knowledge of coverage.

/// The longest input, in bytes.
const BYTES_MAX: usize = 4_096;

/// Texts on which readers of JSON, hex, TOML, URLs and numbers branch.
const WORDS: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-1",
    "1e999",
    "0x",
    "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "\0",
    "é",
    "%ff",
    "&",
    "=",
    "9223372036854775808",
    "18446744073709551616",
    "[[chains]]\n",
    "\n",
    "'''",
    "=\n",
    "9999-12-31T23:59:60Z",
    "nonce too low",
    "already known",
    "\u{feff}",
    "..",
    "720h",
];

/// A source of inputs that follow from a seed.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// A source that repeats itself for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A changed copy of one of these inputs.
    pub fn next_input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus.get(self.below(corpus.len())).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(8)).min(bytes.len());
        match self.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.next_number() as u8,
            2 => bytes.truncate(at),
            3 if at < end => drop(bytes.drain(at..end)),
            4 if at < end => {
                let copy = bytes[at..end].repeat(1 + self.below(64));
                bytes.splice(at..at, copy);
            }
            5 => {
                let other = corpus.get(self.below(corpus.len())).map_or(&[][..], Vec::as_slice);
                let from = self.below(other.len() + 1);
                bytes.splice(at.., other[from..].iter().copied());
            }
            6 => bytes.insert(at, self.next_number() as u8),
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(at..end.max(at), word.bytes());
            }
        }
    }

    /// A number below a limit; zero if the limit is.
    fn below(&mut self, limit: usize) -> usize {
        (self.next_number() % (limit.max(1) as u64)) as usize
    }

    /// SplitMix64: every seed gives another sequence, and none is poor.
    const fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_one_seed_are_the_same_and_those_of_another_differ() {
        let corpus = [b"{\"a\":1}".to_vec(), b"{}".to_vec()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200).map(|_| mutator.next_input(&corpus)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().any(|input| !corpus.contains(input)));
        assert!(inputs(1).iter().all(|input| input.len() <= BYTES_MAX));
    }
}
