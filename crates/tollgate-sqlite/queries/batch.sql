-- The fenced batch, in the order of its statements: lease_guard (lease.sql), then for each section the
-- facts, the creates, the updates, and what goes with them. What ends in _lock is a plain read here: the
-- transaction around it holds the write lock.

-- name: cursor_lock
-- The cursor, status and mode of a submitter.
select next_nonce, status, mode from submitter_cursor where chain_id = ?1 and submitter = ?2

-- name: request_find
-- The transaction of a known request, also a removed one (I7).
select tx_id, payload_digest from managed_tx
 where chain_id = ?1 and submitter = ?2 and request_id = ?3
 union all
select tx_id, payload_digest from removed_tx
 where chain_id = ?1 and submitter = ?2 and request_id = ?3

-- name: tx_lock
-- The submitter, state and version of a row.
select chain_id, submitter, state, version from managed_tx where tx_id = ?1

-- name: recyclable_lock
-- A row if the nonce is recyclable.
select 1 from nonce_reservation
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and state = 3 /* RECYCLABLE */

-- name: tx_update
-- Changes a row of the submitter whose state and version are still those that its writer read (I11); no row otherwise.
update managed_tx set
  state = ?6,
  version = version + 1,
  fencing_token = ?7,
  attempts = attempts + ?8,
  nonce = case when ?10 is not null then null else coalesce(?9, nonce) end,
  mined_hash = case ?11 when 0 /* EVIDENCE_KEEP */ then mined_hash
                        when 1 /* EVIDENCE_SET */ then ?12 end,
  block_number = case ?11 when 0 /* EVIDENCE_KEEP */ then block_number
                          when 1 /* EVIDENCE_SET */ then ?13 end,
  block_hash = case ?11 when 0 /* EVIDENCE_KEEP */ then block_hash
                        when 1 /* EVIDENCE_SET */ then ?14 end,
  gas_used = case ?11 when 0 /* EVIDENCE_KEEP */ then gas_used
                      when 1 /* EVIDENCE_SET */ then ?15 end,
  succeeded = case ?11 when 0 /* EVIDENCE_KEEP */ then succeeded
                       when 1 /* EVIDENCE_SET */ then ?16 end,
  revert_reason = case ?11 when 0 /* EVIDENCE_KEEP */ then revert_reason
                           when 1 /* EVIDENCE_SET */ then ?17 end,
  next_resubmit_at = case ?18 when 0 /* SCHEDULE_KEEP */ then next_resubmit_at
                              when 1 /* SCHEDULE_IN */ then db_now() + ?19 end,
  resubmits = resubmits + ?20,
  last_error = nullif(coalesce(?21, last_error), ''),
  updated_at = db_now(),
  finished_at = case when ?6 between 40 /* FIRST_FINAL */ and 59 /* LAST_FINAL */ then db_now() end
where tx_id = ?1 and version = ?2 and state = ?3 and chain_id = ?4 and submitter = ?5
  and (?10 is null or nonce = ?10)
returning attempts, request_id, mined_hash, block_number, block_hash

-- name: tx_insert
-- Inserts a transaction, with version 1.
insert into managed_tx (
  tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest, state, version,
  fencing_token, attempts, valid_until, created_at, updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?12)

-- name: attempt_insert
-- Inserts an attempt: signed bytes become durable with the change that adds them (I5).
insert into tx_attempt (
  tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, db_now())

-- name: history_insert
-- Inserts the audit entry of one version of a row.
insert into tx_history (
  tx_id, version, at, node, fencing_token, event, from_state, to_state, detail)
values (?1, ?2, db_now(), ?3, ?4, ?5, ?6, ?7, ?8)

-- name: outbox_insert
-- Inserts an event with the change that it reports.
insert into outbox (events, body, at) values (?1, ?2, db_now())

-- name: cursor_move
-- Moves a cursor from ?3 to ?4, never back (I4). No row: it was not at ?3.
update submitter_cursor set next_nonce = ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and next_nonce = ?3 and ?4 >= ?3

-- name: recyclable_take
-- Assigns a recyclable nonce to a managed transaction (I3).
update nonce_reservation set state = 2 /* USED */, tx_hash = ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and state = 3 /* RECYCLABLE */

-- name: slot_free
-- Makes the nonce of a rejected transaction recyclable. No row: a caller holds it, or it is recyclable already (I3).
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, reason, created_at, updated_at)
values (?1, ?2, ?3, 3 /* RECYCLABLE */, zeroblob(16), db_now(), 'slot recycled', db_now(), db_now())
on conflict (chain_id, submitter, nonce) do update
  set state = 3 /* RECYCLABLE */, owner_token = excluded.owner_token, deadline = db_now(), tx_hash = null,
      reason = excluded.reason, updated_at = db_now()
  where state = 2 /* USED */

-- name: confirmation_put
-- Replaces the confirmation list of a transaction as a whole.
insert into confirmation (tx_id, first_block, hashes, new_fork, updated_at)
values (?1, ?2, ?3, ?4, db_now())
on conflict (tx_id) do update
  set first_block = excluded.first_block, hashes = excluded.hashes, new_fork = excluded.new_fork,
      updated_at = db_now()

-- name: diagnosis_put
-- Replaces the diagnosis of a transaction.
insert into tx_diagnosis (tx_id, diagnosis, updated_at) values (?1, ?2, db_now())
on conflict (tx_id) do update set diagnosis = excluded.diagnosis, updated_at = db_now()

-- name: trace_put
-- Inserts the trace of a new transaction.
insert into tx_trace (tx_id, trace) values (?1, ?2)

-- name: receipt_put
-- Replaces the receipt details of a transaction.
insert into tx_receipt (tx_id, block_hash, transaction_index, effective_gas_price, l1_fee,
                        contract_address, block_time)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (tx_id) do update
  set block_hash = excluded.block_hash, transaction_index = excluded.transaction_index,
      effective_gas_price = excluded.effective_gas_price, l1_fee = excluded.l1_fee,
      contract_address = excluded.contract_address, block_time = excluded.block_time

-- name: patience_put
-- Replaces since when a transaction has been waited for, and how often it was resent.
insert into tx_patience (tx_id, since, resends) values (?1, ?2, ?3)
on conflict (tx_id) do update set since = excluded.since, resends = excluded.resends

-- name: patience_delete
-- Deletes the waiting time of a finished transaction.
delete from tx_patience where tx_id = ?1

-- name: unproven_put
-- Replaces since when no search has proved what is in a transaction's slot.
insert into tx_unproven (tx_id, since) values (?1, ?2)
on conflict (tx_id) do update set since = excluded.since

-- name: unproven_delete
-- Deletes the unproven time of a finished transaction.
delete from tx_unproven where tx_id = ?1

-- name: wait_delete
-- Deletes the conditions that a submitter waits for.
delete from submitter_wait where chain_id = ?1 and submitter = ?2

-- name: wait_put
-- Adds a condition that a submitter waits for.
insert into submitter_wait (chain_id, submitter, kind, nonce, since) values (?1, ?2, ?3, ?4, ?5)

-- name: status_change
-- Changes a submitter's status from ?3 to ?4 by comparison, with the reason (?5).
update submitter_cursor
   set status = ?4, status_reason = ?5, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and status = ?3

-- name: mode_change
-- Changes a submitter's mode from ?3 to ?4 by comparison, if nothing of it is open and callers hold none of its nonces (I12).
update submitter_cursor
   set mode = ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and mode = ?3
   and not exists (select 1 from managed_tx t indexed by managed_tx_open
                    where t.chain_id = ?1 and t.submitter = ?2 and t.finished_at is null)
   and not exists (select 1 from nonce_reservation r indexed by nonce_reservation_live
                    where r.chain_id = ?1 and r.submitter = ?2 and r.state = 1 /* RESERVED */
                      and r.state <> 2 /* USED */)

-- name: submitter_history_insert
-- Inserts an entry of a submitter's audit trail.
insert into submitter_history (chain_id, submitter, at, node, fencing_token, event, detail)
values (?1, ?2, db_now(), ?3, ?4, ?5, ?6)

-- name: completion_number
-- The next number of the feed. A rollback gives it back, so there are no gaps (I10).
update completion_counter set last_seq = last_seq + 1 where only_row = 1 returning last_seq

-- name: stuck_insert
-- Inserts an entry about a stuck transaction.
insert into tx_stuck_entry (seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, db_now())

-- name: completion_insert
-- Inserts the completion of a transaction, its only one.
insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, db_now())
