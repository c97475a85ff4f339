//! Which intents a run makes: all that follows from an intent's number.

use std::fmt::Write;
use std::time::Duration;

use tollgate_model::{Address, U256};

/// Intents in one run: what is kept of each stays in memory (I13).
pub(super) const COUNT_MAX: u64 = 5_000_000;
/// Bits of a value that hold the intent's number.
const NUMBER_BITS: u32 = 24;
/// Bits above them that tell runs apart. Together still a small part of an ether.
const RUN_BITS: u32 = 20;
/// Where all transfers go.
pub(super) const RECIPIENT: Address = Address::repeat_byte(0xbe);

/// What a run does.
pub(super) struct Plan {
    /// Tells this run's requests from those of others.
    pub(super) run: u64,
    /// Who sends.
    pub(super) submitters: Vec<Address>,
    /// The gas limit, unless it is to be estimated.
    pub(super) gas: Option<u64>,
    /// Intents in one call.
    pub(super) batch: u64,
    /// How many intents at most.
    pub(super) count: u64,
    /// For how long.
    pub(super) duration: Option<Duration>,
}

impl Plan {
    /// Which of the submitters sends an intent: a whole batch is one submitter's.
    pub(super) fn submitter(&self, number: u64) -> Address {
        self.submitters[(number / self.batch) as usize % self.submitters.len()]
    }

    /// The value that marks an intent on the chain.
    pub(super) fn value(&self, number: u64) -> u64 {
        self.first_value() + number
    }

    const fn first_value(&self) -> u64 {
        let run = self.run & ((1 << RUN_BITS) - 1);
        (run + 1) << NUMBER_BITS
    }

    /// The number of the intent that a mined transfer carries out.
    pub(super) fn number_of(&self, from: Address, to: Option<Address>, value: U256) -> Option<u64> {
        let value = u64::try_from(value).ok()?;
        let number = value.checked_sub(self.first_value()).filter(|n| *n < self.count)?;
        let fits = to == Some(RECIPIENT) && self.submitter(number) == from;
        fits.then_some(number)
    }

    /// The number of the intent with a request id.
    pub(super) fn number_in(&self, request_id: &str) -> Option<u64> {
        let rest = request_id.strip_prefix("bench-")?;
        let (run, number) = rest.split_once('-')?;
        let ours = u64::from_str_radix(run, 16).ok()? == self.run;
        number.parse().ok().filter(|number| ours && *number < self.count)
    }

    /// Writes the body of a create.
    pub(super) fn write(&self, number: u64, body: &mut String) {
        let from = self.submitter(number);
        let (run, value) = (self.run, self.value(number));
        // Writing to a String can't fail.
        let _ = write!(
            body,
            r#"{{"submitter":"{from}","requestId":"bench-{run:016x}-{number}","payload":{{"to":"{RECIPIENT}","value":{value}"#
        );
        if let Some(gas) = self.gas {
            let _ = write!(body, r#","gas":{gas}"#);
        }
        body.push_str("}}");
    }

    /// Writes the body of a batch.
    pub(super) fn write_batch(&self, numbers: &[u64], body: &mut String) {
        body.push_str(r#"{"items":["#);
        for (place, number) in numbers.iter().enumerate() {
            if place > 0 {
                body.push(',');
            }
            self.write(*number, body);
        }
        body.push_str("]}");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli::bench) fn plan(submitters: u8, batch: u64, count: u64) -> Plan {
        let submitters = (1..=submitters).map(Address::repeat_byte).collect();
        Plan { run: 0xfeed_beef, submitters, gas: Some(21_000), batch, count, duration: None }
    }

    #[test]
    fn an_intent_is_found_again_by_its_request_and_by_its_value() {
        let plan = plan(2, 3, 10);
        let mut body = String::new();
        plan.write(4, &mut body);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(plan.number_in(body["requestId"].as_str().unwrap()), Some(4));
        let value = U256::from(body["payload"]["value"].as_u64().unwrap());
        let from: Address = body["submitter"].as_str().unwrap().parse().unwrap();
        assert_eq!(from, Address::repeat_byte(2), "the second batch is the second submitter's");
        assert_eq!(plan.number_of(from, Some(RECIPIENT), value), Some(4));
        assert_eq!(plan.number_of(Address::repeat_byte(1), Some(RECIPIENT), value), None);
        assert_eq!(plan.number_of(from, None, value), None);
        assert_eq!(plan.number_of(from, Some(RECIPIENT), value + U256::from(6)), None);
        assert_eq!(plan.number_in("bench-00000000feedbeef-10"), None, "beyond the run");
        assert_eq!(plan.number_in("bench-00000000feedbee0-1"), None, "another run's");
        assert_eq!(plan.number_in("order-1"), None);
    }

    #[test]
    fn a_batch_is_json() {
        let mut body = String::new();
        plan(1, 2, 9).write_batch(&[1, 7], &mut body);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["items"].as_array().unwrap().len(), 2);
    }
}
