-- Pages of transactions. The three tx_page queries take the same parameters: ids below $1 and from $8
-- on, chain $2, submitter $3, states $4, creation time from $5 and before $6, at most $7 rows.

-- name: tx_page
-- A page of transactions, newest first.
select *
  from tx_full_record m
 where ($1::uuid is null or m.tx_id < $1)
   and ($8::uuid is null or m.tx_id >= $8)
   and ($2::bigint is null or m.chain_id = $2)
   and ($3::bytea is null or m.submitter = $3)
   and ($4::smallint[] is null or m.state = any ($4))
   and ($5::timestamptz is null or m.created_at >= $5)
   and ($6::timestamptz is null or m.created_at < $6)
 order by m.tx_id desc
 limit $7

-- name: tx_page_open
-- A page of open transactions, newest first. Their ids are found first, through the index of open work, so that no plan walks finished rows in search of open ones.
with found as materialized (
  select o.tx_id
    from managed_tx o
   where o.finished_at is null
     and ($1::uuid is null or o.tx_id < $1)
     and ($8::uuid is null or o.tx_id >= $8)
     and ($2::bigint is null or o.chain_id = $2)
     and ($3::bytea is null or o.submitter = $3)
     and ($4::smallint[] is null or o.state = any ($4))
     and ($5::timestamptz is null or o.created_at >= $5)
     and ($6::timestamptz is null or o.created_at < $6)
)
select m.*
  from (select tx_id from found order by tx_id desc limit $7) as f
  join tx_full_record m on m.tx_id = f.tx_id
 order by m.tx_id desc

-- name: tx_page_failed
-- A page of failed transactions, newest first, found through their completions.
select m.*
  from tx_completion f
 cross join lateral (
   select *
     from tx_full_record t
    where t.tx_id = f.tx_id
      and ($5::timestamptz is null or t.created_at >= $5)
      and ($6::timestamptz is null or t.created_at < $6)
    limit 1
 ) as m
 where f.state >= 50 /* FIRST_FAILED */
   and ($1::uuid is null or f.tx_id < $1)
   and ($8::uuid is null or f.tx_id >= $8)
   and ($2::bigint is null or f.chain_id = $2)
   and ($3::bytea is null or f.submitter = $3)
   and ($4::smallint[] is null or f.state = any ($4))
 order by f.tx_id desc
 limit $7

-- name: tx_open_work
-- A page of a submitter's open transactions, oldest first.
select m.*, p.since as patience_since, p.resends as patience_resends, u.since as unproven_since,
       coalesce(c.new_fork, false) as new_fork, s.trace
  from tx_full_record m
  left join tx_patience p on p.tx_id = m.tx_id
  left join tx_unproven u on u.tx_id = m.tx_id
  left join confirmation c on c.tx_id = m.tx_id
  left join tx_trace s on s.tx_id = m.tx_id
 where m.chain_id = $1 and m.submitter = $2 and m.finished_at is null
   and ($3::uuid is null or m.tx_id > $3)
 order by m.tx_id
 limit $4

-- name: tx_line_head
-- The head of a submitter's line: its lowest open slot that is neither mined nor used. Open rows are found by their own index; in the order of nonces the finished ones would come first.
with open_slot as materialized (
  select m.tx_id, m.nonce, m.state
    from managed_tx m
   where m.chain_id = $1 and m.submitter = $2 and m.finished_at is null
)
select tx_id, nonce, state
  from open_slot
 where nonce is not null and state not in (32 /* TRACKING_MINED */, 67 /* STUCK_UNPROVEN */)
 order by nonce
 limit 1

-- name: tx_final_slots
-- A submitter's final slots, highest first, in the order of the index of slots.
select tx_id, nonce, block_number
  from managed_tx
 where chain_id = $1 and submitter = $2 and nonce is not null and finished_at is not null
 order by nonce desc
 limit $3

-- name: tx_slot_states
-- A page of a submitter's slots with their transactions, open and final, from $3 up to before $4, in the order
-- of the index of slots.
select nonce, tx_id, state
  from managed_tx
 where chain_id = $1 and submitter = $2 and nonce is not null and nonce >= $3 and nonce < $4
 order by nonce
 limit $5

-- name: tx_slots
-- A page of the nonces of a submitter's open transactions, from $3 on, in the order of the index of slots.
select nonce
  from managed_tx
 where chain_id = $1 and submitter = $2 and nonce is not null and nonce >= $3
   and finished_at is null
 order by nonce
 limit $4

-- name: tx_top_ups
-- The newest $3 top-ups that submitter $2 of chain $1 pays. Their ids are found first, through the index of top-ups.
with found as materialized (
  select t.tx_id, t.created_at
    from managed_tx t
   where t.chain_id = $1 and t.submitter = $2 and substr(t.request_id, 1, 6) = 'topup:'
   order by t.created_at desc
   limit $3
)
select m.*
  from found f
 cross join lateral (select * from tx_full_record t where t.tx_id = f.tx_id limit 1) as m
 order by f.created_at desc
