-- The attempts of transactions, first to last.
select t.tx_id, t.number, t.tx_hash, t.raw, t.kind, t.gas_limit, t.max_fee, t.max_priority_fee,
       t.created_at
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
 cross join lateral (
   select * from tx_attempt a where a.tx_id = u.tx_id order by a.number limit 1000
 ) as t
 order by u.place, t.number
