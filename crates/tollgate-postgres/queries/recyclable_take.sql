-- Takes nonces out of the pool for managed transactions.
update nonce_reservation r
   set state = 2, tx_hash = u.tx_hash, updated_at = clock_timestamp()
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[])
       as u (chain_id, submitter, nonce, tx_hash)
 where r.chain_id = u.chain_id and r.submitter = u.submitter and r.nonce = u.nonce and r.state = 3
