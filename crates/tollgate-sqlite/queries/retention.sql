-- Finished transactions that are removed, and what is kept of them. The deletes run in one transaction
-- after retention_take, which is a plain read here: the transaction around it holds the write lock.

-- name: retention_claim
-- Makes node ?1 the one that removes rows, for ?2 microseconds. No row: another node is.
update retention_state set holder = ?1, held_until = db_now() + ?2
 where only_row = 1 and (holder is null or holder = ?1 or held_until < db_now())
returning removed_through

-- name: retention_page
-- Of the next ?2 final entries of the feed after ?1: those that ended more than ?3 microseconds ago, and whether their rows may be removed. The highest final slot of a submitter stays: the engine counts from it.
select c.seq, c.tx_id,
       m.nonce is null or exists (
         select 1 from managed_tx h indexed by managed_tx_slot
          where h.chain_id = m.chain_id and h.submitter = m.submitter and h.nonce > m.nonce
            and h.nonce is not null and h.finished_at is not null) as is_removable
  from (select seq, tx_id, at from tx_completion not indexed where seq > ?1 order by seq limit ?2) as c
 cross join managed_tx m on m.tx_id = c.tx_id
 where c.at < db_now() - ?3
 order by c.seq

-- name: retention_take
-- A row if a finished transaction may be removed, as in retention_page.
select m.tx_id from managed_tx m
 where m.tx_id = ?1 and m.finished_at < db_now() - ?2
   and (m.nonce is null or exists (
         select 1 from managed_tx h indexed by managed_tx_slot
          where h.chain_id = m.chain_id and h.submitter = m.submitter and h.nonce > m.nonce
            and h.nonce is not null and h.finished_at is not null))

-- name: removed_insert
-- Keeps what a repeated request and a read of a removed transaction need.
insert into removed_tx (tx_id, chain_id, submitter, request_id, payload_digest, state, tx_hash,
                        finished_at, removed_at)
select tx_id, chain_id, submitter, request_id, payload_digest, state, mined_hash, finished_at, db_now()
  from managed_tx where tx_id = ?1

-- name: removed_slots_put
-- Raises the end of removed slots, never back.
insert into removed_slots (chain_id, submitter, end_nonce)
select chain_id, submitter, nonce + 1 from managed_tx where tx_id = ?1 and nonce is not null
on conflict (chain_id, submitter) do update
   set end_nonce = max(removed_slots.end_nonce, excluded.end_nonce)

-- name: attempt_delete
-- Deletes the attempts of a removed transaction.
delete from tx_attempt where tx_id = ?1

-- name: history_delete
-- Deletes the audit trail of a removed transaction.
delete from tx_history where tx_id = ?1

-- name: confirmation_delete
-- Deletes the confirmation list of a removed transaction.
delete from confirmation where tx_id = ?1

-- name: receipt_delete
-- Deletes the receipt details of a removed transaction.
delete from tx_receipt where tx_id = ?1

-- name: diagnosis_delete
-- Deletes the diagnosis of a removed transaction.
delete from tx_diagnosis where tx_id = ?1

-- name: trace_delete
-- Deletes the trace of a removed transaction.
delete from tx_trace where tx_id = ?1

-- name: completion_delete
-- Deletes the final entry of a removed transaction; returns its number.
delete from tx_completion where tx_id = ?1 returning seq

-- name: stuck_delete
-- Deletes the entries about stuck transactions up to ?1, which no reader reaches any more.
delete from tx_stuck_entry where seq <= ?1

-- name: tx_delete
-- Deletes the row of a removed transaction.
delete from managed_tx where tx_id = ?1

-- name: retention_advance
-- Raises the last removed number of the feed, never back.
update retention_state set removed_through = max(removed_through, ?1) where only_row = 1

-- name: removed_get
-- What is kept of one removed transaction.
select * from removed_tx where tx_id = ?1

-- name: removed_by_request
-- What is kept of a removed transaction, by its request id.
select * from removed_tx where chain_id = ?1 and submitter = ?2 and request_id = ?3

-- name: removed_forget
-- Deletes at most ?2 rows of transactions that ended more than ?1 microseconds ago, oldest first.
delete from removed_tx
 where tx_id in (select tx_id from removed_tx where finished_at < db_now() - ?1
                  order by finished_at limit ?2)
