-- name: tx_get
-- One transaction.
select * from tx_full_record where tx_id = ?1

-- name: tx_versions
-- State and version of one transaction.
select state, version from managed_tx where tx_id = ?1

-- name: tx_by_request
-- One transaction by its request id.
select * from tx_full_record where chain_id = ?1 and submitter = ?2 and request_id = ?3

-- name: tx_by_hash
-- The transactions that an attempt belongs to: one on each chain that has it.
select tx_id from tx_attempt where tx_hash = ?1

-- name: attempt_of
-- The attempts of one transaction, first to last.
select tx_id, number, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee, created_at
  from tx_attempt where tx_id = ?1 order by number

-- name: history_page
-- A page of one transaction's audit trail, oldest first, after version ?2.
select version, at, node, fencing_token, event, from_state, to_state, detail
  from tx_history where tx_id = ?1 and version > ?2 order by version limit ?3

-- name: confirmation_get
-- The confirmation list of one transaction.
select first_block, hashes, new_fork from confirmation where tx_id = ?1
