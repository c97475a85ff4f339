-- Extends all of a node's leases that are still valid; returns their places in the input.
update submitter_lease l
   set expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
       updated_at = clock_timestamp()
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, token, place)
 where l.chain_id = u.chain_id and l.submitter = u.submitter
   and l.owner_node = $4 and l.fencing_token = u.token and l.expires_at > clock_timestamp()
returning u.place
