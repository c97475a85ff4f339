-- The fenced batch, in the order of its statements: lease_guard (lease.sql), then the facts under locks
-- (cursors, requests, rows, recycled nonces), the updates, the inserts, and the completions last.

-- name: cursor_lock
-- Locks the cursors of a batch: slots of a submitter are opened by one transaction at a time (I3).
select u.place, c.next_nonce, c.status, c.mode
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join submitter_cursor c on c.chain_id = u.chain_id and c.submitter = u.submitter
 order by c.chain_id, c.submitter
   for no key update of c

-- name: request_find
-- The transactions of known requests, removed ones among them, by the place in the input. The next row in the order of the key is read and compared: of all indexes that begin with the submitter, this order leaves the planner one, whatever its statistics say.
select u.place, m.tx_id, m.payload_digest
  from unnest($1::bigint[], $2::bytea[], $3::text[])
       with ordinality as u (chain_id, submitter, request_id, place)
 cross join lateral (
   (select t.chain_id, t.submitter, t.request_id, t.tx_id, t.payload_digest
      from managed_tx t
     where t.request_id is not null
       and (t.chain_id, t.submitter, t.request_id) >= (u.chain_id, u.submitter, u.request_id)
     order by t.chain_id, t.submitter, t.request_id
     limit 1)
    union all
   (select r.chain_id, r.submitter, r.request_id, r.tx_id, r.payload_digest
      from removed_tx r
     where r.request_id is not null
       and (r.chain_id, r.submitter, r.request_id) >= (u.chain_id, u.submitter, u.request_id)
     order by r.chain_id, r.submitter, r.request_id
     limit 1)
 ) as m
 where m.chain_id = u.chain_id and m.submitter = u.submitter and m.request_id = u.request_id

-- name: tx_lock
-- Reads and locks rows, so that what is read stays true until the commit. Ordered as text: an order that an index offers would tempt the planner to walk all of it.
select u.place, m.state, m.version, m.chain_id, m.submitter
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
  join managed_tx m on m.tx_id = u.tx_id
 order by m.tx_id::text
   for no key update of m

-- name: recyclable_lock
-- Locks the recyclable nonces that a batch uses; returns the places of those that are there.
select u.place
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, nonce, place)
  join nonce_reservation r
    on r.chain_id = u.chain_id and r.submitter = u.submitter and r.nonce = u.nonce
 where r.state = 3 /* RECYCLABLE */
 order by r.chain_id, r.submitter, r.nonce
   for update of r

-- name: tx_update
-- Changes rows whose state and version are still those that their writer read (I11); returns their places in the input. Found by id alone: `+ 0` keeps the planner off the indexes that begin with the chain.
update managed_tx m
   set state = u.to_state,
       version = m.version + 1,
       fencing_token = u.token,
       nonce = case when u.frees then null else coalesce(u.nonce, m.nonce) end,
       attempts = m.attempts + u.adds_attempt,
       next_resubmit_at = case when u.schedule = 0 /* SCHEDULE_KEEP */ then m.next_resubmit_at
                               when u.schedule = 1 /* SCHEDULE_IN */
                               then clock_timestamp() + u.delay * interval '1 microsecond' end,
       resubmits = m.resubmits + u.resubmitted,
       last_error = nullif(coalesce(u.last_error, m.last_error), ''),
       mined_hash = case u.evidence when 0 /* EVIDENCE_KEEP */ then m.mined_hash
                                    when 1 /* EVIDENCE_SET */ then u.mined_hash end,
       block_number = case u.evidence when 0 /* EVIDENCE_KEEP */ then m.block_number
                                      when 1 /* EVIDENCE_SET */ then u.block_number end,
       block_hash = case u.evidence when 0 /* EVIDENCE_KEEP */ then m.block_hash
                                    when 1 /* EVIDENCE_SET */ then u.block_hash end,
       gas_used = case u.evidence when 0 /* EVIDENCE_KEEP */ then m.gas_used
                                  when 1 /* EVIDENCE_SET */ then u.gas_used end,
       succeeded = case u.evidence when 0 /* EVIDENCE_KEEP */ then m.succeeded
                                   when 1 /* EVIDENCE_SET */ then u.succeeded end,
       revert_reason = case u.evidence when 0 /* EVIDENCE_KEEP */ then m.revert_reason
                                       when 1 /* EVIDENCE_SET */ then u.revert_reason end,
       updated_at = clock_timestamp(),
       finished_at = case when u.to_state between 40 /* FIRST_FINAL */ and 59 /* LAST_FINAL */
                          then clock_timestamp() end
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::integer[],
              $7::smallint[], $8::bigint[], $9::boolean[], $10::smallint[], $11::smallint[],
              $12::bigint[], $13::integer[], $14::text[], $15::smallint[], $16::bytea[],
              $17::bigint[], $18::bytea[], $19::bigint[], $20::boolean[], $21::text[])
       with ordinality
       as u (tx_id, chain_id, submitter, token, from_state, from_version,
             to_state, nonce, frees, adds_attempt, schedule,
             delay, resubmitted, last_error, evidence, mined_hash,
             block_number, block_hash, gas_used, succeeded, revert_reason, place)
 where m.tx_id = u.tx_id and m.chain_id + 0 = u.chain_id and m.submitter = u.submitter
   and m.version = u.from_version and m.state = u.from_state
   and (not u.frees or m.nonce = u.nonce)
returning u.place, m.attempts, m.request_id, m.mined_hash, m.block_number, m.block_hash

-- name: tx_insert
-- Inserts transactions, with version 1.
insert into managed_tx (tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest,
                        state, version, fencing_token, attempts, valid_until, created_at, updated_at)
select u.tx_id, u.chain_id, u.submitter, u.request_id, u.nonce, u.payload, u.payload_digest,
       u.state, 1, u.token, (u.nonce is not null)::int::smallint, u.valid_until,
       u.created_at, u.created_at
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::bigint[], $6::bytea[],
              $7::bytea[], $8::smallint[], $9::bigint[], $10::timestamptz[], $11::timestamptz[])
       as u (tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest,
             state, token, valid_until, created_at)

-- name: attempt_insert
-- Inserts attempts: signed bytes become durable with the change that adds them (I5).
insert into tx_attempt (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee,
                        max_priority_fee)
select u.tx_id, u.number, u.chain_id, u.tx_hash, u.raw, u.kind, u.gas_limit, u.max_fee,
       u.max_priority_fee
  from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::smallint[],
              $7::bigint[], $8::bigint[], $9::bigint[])
       as u (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee)

-- name: history_insert
-- Inserts the audit entries of a batch: one for each version of a row.
insert into tx_history (tx_id, version, node, fencing_token, event, from_state, to_state, detail)
select u.tx_id, u.version, $1, u.token, u.event, u.from_state, u.to_state, u.detail
  from unnest($2::uuid[], $3::integer[], $4::bigint[], $5::text[], $6::smallint[], $7::smallint[],
              $8::text[])
       as u (tx_id, version, token, event, from_state, to_state, detail)

-- name: outbox_insert
-- Inserts the events of a batch, in its transaction. They get their numbers after the commit (event_number), so no lock is taken here.
insert into outbox (events, body) values ($1, $2)

-- name: cursor_move
-- Moves cursors, never back (I4). Fewer rows than places: a cursor was not at its expected nonce.
update submitter_cursor c
   set next_nonce = u.goes_to, updated_at = clock_timestamp()
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[])
       as u (chain_id, submitter, comes_from, goes_to)
 where c.chain_id = u.chain_id and c.submitter = u.submitter
   and c.next_nonce = u.comes_from and u.goes_to >= u.comes_from

-- name: recyclable_take
-- Assigns recyclable nonces to managed transactions (I3).
update nonce_reservation r
   set state = 2 /* USED */, tx_hash = u.tx_hash, updated_at = clock_timestamp()
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[])
       as u (chain_id, submitter, nonce, tx_hash)
 where r.chain_id = u.chain_id and r.submitter = u.submitter and r.nonce = u.nonce
   and r.state = 3 /* RECYCLABLE */

-- name: slot_free
-- Makes the nonces of rejected transactions recyclable. Fewer rows than places: a caller holds one of them (I3).
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline, reason)
select u.chain_id, u.submitter, u.nonce, 3 /* RECYCLABLE */, '00000000-0000-0000-0000-000000000000',
       clock_timestamp(), 'slot recycled'
  from unnest($1::bigint[], $2::bytea[], $3::bigint[]) as u (chain_id, submitter, nonce)
on conflict (chain_id, submitter, nonce) do update
   set state = 3 /* RECYCLABLE */, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = excluded.reason, updated_at = clock_timestamp()
 where nonce_reservation.state = 2 /* USED */

-- name: confirmation_put
-- Replaces the confirmation lists of transactions as a whole.
insert into confirmation (tx_id, first_block, hashes, new_fork)
select u.tx_id, u.first_block, u.hashes, u.new_fork
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::boolean[])
       as u (tx_id, first_block, hashes, new_fork)
on conflict (tx_id) do update
   set first_block = excluded.first_block, hashes = excluded.hashes,
       new_fork = excluded.new_fork, updated_at = clock_timestamp()

-- name: diagnosis_put
-- Replaces the diagnoses of transactions.
insert into tx_diagnosis (tx_id, diagnosis)
select u.tx_id, u.diagnosis from unnest($1::uuid[], $2::text[]) as u (tx_id, diagnosis)
on conflict (tx_id) do update
   set diagnosis = excluded.diagnosis, updated_at = clock_timestamp()

-- name: trace_put
-- Inserts the traces of new transactions.
insert into tx_trace (tx_id, trace)
select u.tx_id, u.trace from unnest($1::uuid[], $2::bytea[]) as u (tx_id, trace)

-- name: receipt_put
-- Replaces the receipt details of transactions.
insert into tx_receipt (tx_id, block_hash, transaction_index, effective_gas_price, l1_fee, contract_address,
                        block_time)
select u.tx_id, u.block_hash, u.transaction_index, u.effective_gas_price, u.l1_fee, u.contract_address,
       u.block_time
  from unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[],
              $7::timestamptz[])
       as u (tx_id, block_hash, transaction_index, effective_gas_price, l1_fee, contract_address,
             block_time)
    on conflict (tx_id) do update
   set block_hash = excluded.block_hash, transaction_index = excluded.transaction_index,
       effective_gas_price = excluded.effective_gas_price, l1_fee = excluded.l1_fee,
       contract_address = excluded.contract_address, block_time = excluded.block_time

-- name: patience_put
-- Replaces since when transactions have been waited for, and how often they were resent.
insert into tx_patience (tx_id, since, resends)
select u.tx_id, u.since, u.resends
  from unnest($1::uuid[], $2::timestamptz[], $3::integer[]) as u (tx_id, since, resends)
on conflict (tx_id) do update set since = excluded.since, resends = excluded.resends

-- name: patience_delete
-- Deletes the waiting times of finished transactions.
delete from tx_patience where tx_id = any ($1::uuid[])

-- name: unproven_put
-- Replaces since when no search has proved what is in the slots of transactions.
insert into tx_unproven (tx_id, since)
select u.tx_id, u.since from unnest($1::uuid[], $2::timestamptz[]) as u (tx_id, since)
on conflict (tx_id) do update set since = excluded.since

-- name: unproven_delete
-- Deletes the unproven times of finished transactions.
delete from tx_unproven where tx_id = any ($1::uuid[])

-- name: wait_delete
-- Deletes the conditions that a submitter waits for.
delete from submitter_wait where chain_id = $1 and submitter = $2

-- name: wait_put
-- Adds conditions that a submitter waits for.
insert into submitter_wait (chain_id, submitter, kind, nonce, since)
select $1, $2, u.kind, u.nonce, u.since
  from unnest($3::smallint[], $4::bigint[], $5::timestamptz[]) as u (kind, nonce, since)

-- name: status_change
-- Pauses, protects or resumes a submitter, by comparison.
update submitter_cursor
   set status = $4, status_reason = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and status = $3

-- name: mode_change
-- Changes a submitter's mode by comparison, if nothing of it is open and callers hold none of its nonces (I12). The batch's lock on the cursor keeps it so until the commit.
update submitter_cursor c
   set mode = $4, updated_at = clock_timestamp()
 where c.chain_id = $1 and c.submitter = $2 and c.mode = $3
   and not exists (select 1 from managed_tx m
                    where m.chain_id = c.chain_id and m.submitter = c.submitter
                      and m.finished_at is null)
   and not exists (select 1 from nonce_reservation r
                    where r.chain_id = c.chain_id and r.submitter = c.submitter and r.state = 1 /* RESERVED */)

-- name: submitter_history_insert
-- Inserts an entry of a submitter's audit trail, under the cursor's lock.
insert into submitter_history (chain_id, submitter, node, fencing_token, event, detail)
values ($1, $2, $3, $4, $5, $6)

-- name: stuck_insert
-- Numbers entries about stuck transactions from the same counter, as completion_insert does.
with counter as (
  update completion_counter set last_seq = last_seq + cardinality($1::uuid[])
  returning last_seq - cardinality($1::uuid[]) as base
)
insert into tx_stuck_entry (seq, tx_id, chain_id, submitter, request_id, state, tx_hash)
select (select base from counter) + u.place, u.tx_id, u.chain_id, u.submitter, u.request_id, u.state,
       u.tx_hash
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::smallint[], $6::bytea[])
       with ordinality as u (tx_id, chain_id, submitter, request_id, state, tx_hash, place)

-- name: completion_insert
-- Numbers completions from the counter, whose lock is held until the commit: the order of seq is the order of commits (I10). Without a counter the number is null, which the key refuses: the statement writes every row or fails.
with counter as (
  update completion_counter set last_seq = last_seq + cardinality($1::uuid[])
  returning last_seq - cardinality($1::uuid[]) as base
)
insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash)
select (select base from counter) + u.place, u.tx_id, u.chain_id, u.submitter, u.request_id, u.state,
       u.tx_hash
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::smallint[], $6::bytea[])
       with ordinality as u (tx_id, chain_id, submitter, request_id, state, tx_hash, place)
