//! Asks several endpoints the same question at once, and compares their answers.
//!
//! Owns no state. After the first answer the others have a short time, because somebody waits for the result.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use super::pool_member::PoolMember;

/// The longest wait for a further answer.
const FURTHER_PATIENCE_MAX: Duration = Duration::from_secs(2);
/// A further endpoint has this many times its usual latency.
const LATENCIES: f64 = 4.0;

/// The time for further answers after the first one: enough for an endpoint that is as slow as usual, so that a fast
/// one that lies does not decide alone (I16), and at least this long.
pub(super) fn further_patience(members: &[Arc<PoolMember>], least: Duration) -> Duration {
    patience_at(members.iter().filter_map(|it| it.endpoint.health().latency_seconds), least)
}

fn patience_at(latencies: impl Iterator<Item = f64>, least: Duration) -> Duration {
    let slowest = latencies.fold(0.0, f64::max) * LATENCIES;
    Duration::from_secs_f64(slowest.min(FURTHER_PATIENCE_MAX.as_secs_f64())).max(least)
}

/// The answers in the order in which they come, and the errors. Each question ends by itself at the deadline.
pub(super) async fn gather<T, E>(
    asked: impl IntoIterator<Item = impl Future<Output = Result<T, E>>>,
    deadline: Instant,
    patience: Duration,
) -> (Vec<T>, Vec<E>) {
    let mut asked: FuturesUnordered<_> = asked.into_iter().collect();
    let (mut answers, mut errors, mut until) = (Vec::new(), Vec::new(), deadline);
    while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
        match answer {
            Ok(answer) => {
                answers.push(answer);
                until = until.min(Instant::now() + patience);
            }
            Err(error) => errors.push(error),
        }
    }
    (answers, errors)
}

/// The answer that most endpoints give, the earliest of several, and how many give it.
pub(super) fn most_given<T: PartialEq>(answers: &[T]) -> Option<(&T, usize)> {
    let number_of = |it: &T| answers.iter().filter(|other| *other == it).count();
    let counted = answers.iter().map(|it| (it, number_of(it)));
    counted.rev().max_by_key(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_given_answer_is_the_earliest_of_those_that_most_give() {
        assert_eq!(most_given::<u8>(&[]), None);
        assert_eq!(most_given(&[3, 5, 5]), Some((&5, 2)));
        assert_eq!(most_given(&[3, 5]), Some((&3, 1)));
    }

    #[test]
    fn slow_endpoint_is_waited_for_longer_than_a_fast_one_and_a_dead_one_for_a_bounded_time() {
        let least = Duration::from_millis(300);
        let patience = |seconds: &[f64]| patience_at(seconds.iter().copied(), least);
        assert_eq!((patience(&[]), patience(&[0.001, 0.01])), (least, least));
        assert_eq!(patience(&[0.001, 0.25]), Duration::from_secs(1));
        assert_eq!(patience(&[30.0]), FURTHER_PATIENCE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn further_answers_are_waited_for_until_patience_ends_and_first_ones_until_the_deadline()
    {
        let after = |millis, answer: Result<u8, u8>| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            answer
        };
        let (soon, patience) = (Duration::from_secs(9), Duration::from_millis(300));
        let asked =
            [after(5_000, Ok(1)), after(5_200, Ok(2)), after(5_400, Ok(3)), after(10, Err(4))];
        let gathered = gather(asked, Instant::now() + soon, patience).await;
        assert_eq!(gathered, (vec![1, 2], vec![4]));
    }
}
