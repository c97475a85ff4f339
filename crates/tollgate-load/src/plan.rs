//! The intents of a run. Everything about an intent follows from its number.

use std::fmt::Write;
use std::time::Duration;

use tollgate_model::{Address, U256};

/// The most intents in one run: their records stay in memory (I13).
pub const COUNT_MAX: u64 = 5_000_000;
/// The bits of a value that hold the intent's number.
const NUMBER_BITS: u32 = 24;
/// The bits above them, which tell runs apart. Together still a small fraction of an ether.
const RUN_BITS: u32 = 20;
/// The recipient of all transfers.
pub(crate) const RECIPIENT: Address = Address::repeat_byte(0xbe);

/// The parameters of a run.
pub(crate) struct Plan {
    /// Distinguishes this run's requests from those of other runs.
    pub(crate) run: u64,
    /// The senders.
    pub(crate) submitters: Vec<Address>,
    /// The gas limit; `None` if the node estimates it.
    pub(crate) gas: Option<u64>,
    /// Intents per call.
    pub(crate) batch: u64,
    /// The most intents.
    pub(crate) count: u64,
    /// The time during which new intents are created.
    pub(crate) duration: Option<Duration>,
    /// Intents per second in an open loop; `None` in a closed one.
    pub(crate) rate: Option<u32>,
}

impl Plan {
    /// The submitter of an intent: a whole batch belongs to one submitter.
    pub(crate) fn submitter(&self, number: u64) -> Address {
        self.submitters[(number / self.batch) as usize % self.submitters.len()]
    }

    /// When an intent arrives after the run began, whatever the node does; `None` in a closed loop.
    pub(crate) fn arrival(&self, number: u64) -> Option<Duration> {
        self.rate.map(|rate| Duration::from_secs_f64(number as f64 / f64::from(rate)))
    }

    /// The value that marks an intent on the chain.
    pub(crate) fn value(&self, number: u64) -> u64 {
        self.first_value() + number
    }

    const fn first_value(&self) -> u64 {
        let run = self.run & ((1 << RUN_BITS) - 1);
        (run + 1) << NUMBER_BITS
    }

    /// The number of the intent that a mined transfer carries out.
    pub(crate) fn number_of(&self, from: Address, to: Option<Address>, value: U256) -> Option<u64> {
        let value = u64::try_from(value).ok()?;
        let number = value.checked_sub(self.first_value()).filter(|n| *n < self.count)?;
        let fits = to == Some(RECIPIENT) && self.submitter(number) == from;
        fits.then_some(number)
    }

    /// The number of the intent with a request id.
    pub(crate) fn number_in(&self, request_id: &str) -> Option<u64> {
        let rest = request_id.strip_prefix("bench-")?;
        let (run, number) = rest.split_once('-')?;
        let ours = u64::from_str_radix(run, 16).ok()? == self.run;
        number.parse().ok().filter(|number| ours && *number < self.count)
    }

    /// Writes the body of a create.
    pub(crate) fn write(&self, number: u64, body: &mut String) {
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
    pub(crate) fn write_batch(&self, numbers: &[u64], body: &mut String) {
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plan(submitters: u8, batch: u64, count: u64) -> Plan {
        let submitters = (1..=submitters).map(Address::repeat_byte).collect();
        Plan {
            run: 0xfeed_beef,
            submitters,
            gas: Some(21_000),
            batch,
            count,
            duration: None,
            rate: None,
        }
    }

    #[test]
    fn arrivals_of_an_open_loop_are_evenly_spaced_and_fixed_in_advance() {
        let closed = plan(1, 1, 9);
        assert_eq!(closed.arrival(3), None);
        let open = Plan { rate: Some(500), ..closed };
        let arrivals: Vec<_> = (0..3).filter_map(|number| open.arrival(number)).collect();
        assert_eq!(arrivals, [0, 2, 4].map(Duration::from_millis));
        assert_eq!(open.arrival(500), Some(Duration::from_secs(1)));
    }

    #[test]
    fn intent_is_identified_by_request_id_and_by_value() {
        let plan = plan(2, 3, 10);
        let mut body = String::new();
        plan.write(4, &mut body);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(plan.number_in(body["requestId"].as_str().unwrap()), Some(4));
        let value = U256::from(body["payload"]["value"].as_u64().unwrap());
        let from: Address = body["submitter"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            from,
            Address::repeat_byte(2),
            "the second batch belongs to the second submitter"
        );
        assert_eq!(plan.number_of(from, Some(RECIPIENT), value), Some(4));
        assert_eq!(plan.number_of(Address::repeat_byte(1), Some(RECIPIENT), value), None);
        assert_eq!(plan.number_of(from, None, value), None);
        assert_eq!(plan.number_of(from, Some(RECIPIENT), value + U256::from(6)), None);
        assert_eq!(plan.number_in("bench-00000000feedbeef-10"), None, "beyond the run");
        assert_eq!(plan.number_in("bench-00000000feedbee0-1"), None, "another run's");
        assert_eq!(plan.number_in("order-1"), None);
    }

    #[test]
    fn batch_body_is_json() {
        let mut body = String::new();
        plan(1, 2, 9).write_batch(&[1, 7], &mut body);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["items"].as_array().unwrap().len(), 2);
    }
}
