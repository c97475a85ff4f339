-- The transactions that attempts belong to.
select a.tx_hash, a.tx_id
  from unnest($1::bytea[]) as u (tx_hash)
 cross join lateral (
   select t.tx_hash, t.tx_id from tx_attempt t where t.tx_hash = u.tx_hash limit 16
 ) as a
