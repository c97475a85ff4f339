-- Which requests are known, by the place in the input. The next one in the order of the key is read and compared: of all indexes that begin with the submitter, this order leaves the planner one, whatever it believes about the table.
select u.place, m.tx_id, m.payload_digest
  from unnest($1::bigint[], $2::bytea[], $3::text[])
       with ordinality as u (chain_id, submitter, request_id, place)
 cross join lateral (
   select t.chain_id, t.submitter, t.request_id, t.tx_id, t.payload_digest
     from managed_tx t
    where t.request_id is not null
      and (t.chain_id, t.submitter, t.request_id) >= (u.chain_id, u.submitter, u.request_id)
    order by t.chain_id, t.submitter, t.request_id
    limit 1
 ) as m
 where m.chain_id = u.chain_id and m.submitter = u.submitter and m.request_id = u.request_id
