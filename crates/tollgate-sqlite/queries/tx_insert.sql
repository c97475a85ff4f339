-- A new transaction, version 1.
insert into managed_tx (
  tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest, state, version,
  fencing_token, attempts, valid_until, created_at, updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?12)
