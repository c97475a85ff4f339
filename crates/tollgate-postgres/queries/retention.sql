-- Finished transactions that are removed, and what is kept of them. The deletes run in one transaction
-- after retention_take, whose locks last until its end.

-- name: retention_claim
-- Makes node $1 the one that removes rows, for $2 microseconds. No row: another node is.
update retention_state
   set holder = $1, held_until = clock_timestamp() + $2::bigint * interval '1 microsecond'
 where holder is null or holder = $1 or held_until < clock_timestamp()
returning removed_through

-- name: retention_page
-- Of the next $2 final entries of the feed after $1: those that ended more than $3 microseconds ago, and whether their rows may be removed. The highest final slot of a submitter stays: the engine counts from it.
select c.seq, c.tx_id,
       m.nonce is null or exists (
         select 1 from managed_tx h
          where (h.chain_id, h.submitter, h.nonce) > (m.chain_id, m.submitter, m.nonce)
            and (h.chain_id, h.submitter, h.nonce) <= (m.chain_id, m.submitter, 9223372036854775807)
            and h.nonce is not null and h.finished_at is not null
          order by h.chain_id, h.submitter, h.nonce
          limit 1) as is_removable
  from (select seq, tx_id, at from tx_completion where seq > $1 order by seq limit $2) as c
 cross join lateral (
   select t.chain_id, t.submitter, t.nonce from managed_tx t where t.tx_id = c.tx_id limit 1
 ) as m
 where c.at < clock_timestamp() - $3::bigint * interval '1 microsecond'
 order by c.seq

-- name: retention_take
-- Locks the rows of finished transactions that may be removed, as in retention_page; returns them. A row that somebody has locked is left out.
select m.tx_id
  from unnest($1::uuid[]) as u (tx_id)
  join managed_tx m on m.tx_id = u.tx_id
 where m.finished_at < clock_timestamp() - $2::bigint * interval '1 microsecond'
   and (m.nonce is null or exists (
         select 1 from managed_tx h
          where (h.chain_id, h.submitter, h.nonce) > (m.chain_id, m.submitter, m.nonce)
            and (h.chain_id, h.submitter, h.nonce) <= (m.chain_id, m.submitter, 9223372036854775807)
            and h.nonce is not null and h.finished_at is not null
          order by h.chain_id, h.submitter, h.nonce
          limit 1))
   for update of m skip locked

-- name: removed_insert
-- Keeps what a repeated request and a read of a removed transaction need.
insert into removed_tx (tx_id, chain_id, submitter, request_id, payload_digest, state, tx_hash, finished_at)
select m.tx_id, m.chain_id, m.submitter, m.request_id, m.payload_digest, m.state, m.mined_hash,
       m.finished_at
  from unnest($1::uuid[]) as u (tx_id)
  join managed_tx m on m.tx_id = u.tx_id

-- name: removed_slots_put
-- Raises the ends of removed slots, never back.
insert into removed_slots (chain_id, submitter, end_nonce)
select m.chain_id, m.submitter, max(m.nonce) + 1
  from unnest($1::uuid[]) as u (tx_id)
  join managed_tx m on m.tx_id = u.tx_id
 where m.nonce is not null
 group by m.chain_id, m.submitter
 order by m.chain_id, m.submitter
on conflict (chain_id, submitter) do update
   set end_nonce = greatest(removed_slots.end_nonce, excluded.end_nonce)

-- name: attempt_delete
-- Deletes the attempts of removed transactions.
delete from tx_attempt where tx_id = any ($1::uuid[])

-- name: history_delete
-- Deletes the audit trails of removed transactions.
delete from tx_history where tx_id = any ($1::uuid[])

-- name: confirmation_delete
-- Deletes the confirmation lists of removed transactions.
delete from confirmation where tx_id = any ($1::uuid[])

-- name: receipt_delete
-- Deletes the receipt details of removed transactions.
delete from tx_receipt where tx_id = any ($1::uuid[])

-- name: diagnosis_delete
-- Deletes the diagnoses of removed transactions.
delete from tx_diagnosis where tx_id = any ($1::uuid[])

-- name: trace_delete
-- Deletes the traces of removed transactions.
delete from tx_trace where tx_id = any ($1::uuid[])

-- name: completion_delete
-- Deletes the final entries of removed transactions; returns their numbers.
delete from tx_completion where tx_id = any ($1::uuid[]) returning seq

-- name: stuck_delete
-- Deletes the entries about stuck transactions up to $1, which no reader reaches any more.
delete from tx_stuck_entry where seq <= $1

-- name: tx_delete
-- Deletes the rows of removed transactions.
delete from managed_tx where tx_id = any ($1::uuid[])

-- name: retention_advance
-- Raises the last removed number of the feed, never back.
update retention_state set removed_through = greatest(removed_through, $1)

-- name: removed_get
-- What is kept of one removed transaction.
select * from removed_tx where tx_id = $1

-- name: removed_by_request
-- What is kept of a removed transaction, by its request id.
select * from removed_tx where chain_id = $1 and submitter = $2 and request_id = $3

-- name: removed_forget
-- Deletes at most $2 rows of transactions that ended more than $1 microseconds ago, oldest first.
delete from removed_tx
 where tx_id in (select tx_id from removed_tx
                  where finished_at < clock_timestamp() - $1::bigint * interval '1 microsecond'
                  order by finished_at limit $2)
