-- name: tx_get
-- Transactions, in the order asked. Each is looked up by itself: no plan walks the table.
select m.*
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
 cross join lateral (select * from tx_full_record t where t.tx_id = u.tx_id limit 1) as m
 order by u.place

-- name: tx_versions
-- State and version of transactions, without locks. Each is looked up by itself: no plan walks the table.
select u.place, m.state, m.version
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
 cross join lateral (
   select t.state, t.version from managed_tx t where t.tx_id = u.tx_id limit 1
 ) as m

-- name: tx_by_request
-- One transaction by its request id.
select * from tx_full_record where chain_id = $1 and submitter = $2 and request_id = $3

-- name: tx_by_hash
-- The transactions that attempts belong to.
select a.tx_hash, a.tx_id
  from unnest($1::bytea[]) as u (tx_hash)
 cross join lateral (
   select t.tx_hash, t.tx_id from tx_attempt t where t.tx_hash = u.tx_hash limit 16
 ) as a

-- name: attempt_of
-- The attempts of transactions, first to last.
select t.tx_id, t.number, t.tx_hash, t.raw, t.kind, t.gas_limit, t.max_fee, t.max_priority_fee,
       t.created_at
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
 cross join lateral (
   select * from tx_attempt a where a.tx_id = u.tx_id order by a.number limit 1000
 ) as t
 order by u.place, t.number

-- name: history_page
-- A page of the audit trail of each of these transactions, oldest first, after version $2.
select h.tx_id, h.version, h.at, h.node, h.fencing_token, h.event, h.from_state, h.to_state, h.detail
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
 cross join lateral (
   select * from tx_history t
    where t.tx_id = u.tx_id and t.version > $2
    order by t.version
    limit $3
 ) as h
 order by u.place, h.version

-- name: confirmation_get
-- The confirmation lists of transactions.
select c.tx_id, c.first_block, c.hashes, c.new_fork
  from unnest($1::uuid[]) as u (tx_id)
 cross join lateral (select * from confirmation t where t.tx_id = u.tx_id limit 1) as c
