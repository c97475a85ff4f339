-- Which requests are known, by the place in the input. LATERAL keeps the plan on the index even where the table was last analysed while empty.
select u.place, m.tx_id, m.payload_digest
  from unnest($1::bigint[], $2::bytea[], $3::text[])
       with ordinality as u (chain_id, submitter, request_id, place)
 cross join lateral (
   select t.tx_id, t.payload_digest
     from managed_tx t
    where t.chain_id = u.chain_id and t.submitter = u.submitter and t.request_id = u.request_id
    limit 1
 ) as m
