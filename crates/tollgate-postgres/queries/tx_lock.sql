-- Reads and holds rows, so that what is seen stays true until the commit. Ordered as text, because no index offers that order at the price of a walk through all of it.
select u.place, m.state, m.version, m.chain_id, m.submitter
  from unnest($1::uuid[]) with ordinality as u (tx_id, place)
  join managed_tx m on m.tx_id = u.tx_id
 order by m.tx_id::text
   for no key update of m
