//! Calls one method with many parameters: in batches where the node takes them, else one by one.

use futures_util::{StreamExt, stream};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::{Endpoint, RpcError, RpcErrorKind};

/// Calls in one batch.
const BATCH_MAX: usize = 50;
/// Single calls in flight at once.
const IN_FLIGHT: usize = 8;

impl Endpoint {
    /// Calls a method with each of these parameters; an answer for each, in order.
    pub(crate) async fn call_each_until<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &[Value],
        deadline: Instant,
    ) -> Vec<Result<T, RpcError>> {
        let mut answers = Vec::with_capacity(params.len());
        for some in params.chunks(BATCH_MAX) {
            answers.extend(self.call_chunk_until(method, some, deadline).await);
        }
        answers
    }

    async fn call_chunk_until<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &[Value],
        deadline: Instant,
    ) -> Vec<Result<T, RpcError>> {
        if params.len() > 1 && self.may_batch(Instant::now()) {
            match self.batch_until(method, params, deadline).await {
                Ok(answers) => {
                    let left_out =
                        || Err(RpcError::new(RpcErrorKind::NoAnswer, "left out of the batch"));
                    return answers.into_iter().map(|one| one.unwrap_or_else(left_out)).collect();
                }
                // It takes no batches, or none of this size.
                Err(error) if matches!(error.kind, RpcErrorKind::Node | RpcErrorKind::NotRpc) => {}
                Err(error) => return params.iter().map(|_| Err(error.clone())).collect(),
            }
        }
        stream::iter(params.to_vec())
            .map(|one| self.call_until(method, one, deadline))
            .buffered(IN_FLIGHT)
            .collect()
            .await
    }
}
