-- Holds nonces of the pool that a batch wants to use; returns the places of those that are there.
select u.place
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, nonce, place)
  join nonce_reservation r
    on r.chain_id = u.chain_id and r.submitter = u.submitter and r.nonce = u.nonce
 where r.state = 3
 order by r.chain_id, r.submitter, r.nonce
   for update of r
