-- The fence: proves leases and holds them until the commit; returns the places of those that
-- stand, and the time.
select u.place, clock_timestamp() as at
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, token, place)
  join submitter_lease l on l.chain_id = u.chain_id and l.submitter = u.submitter
 where l.owner_node = $4 and l.fencing_token = u.token   -- safety
   and l.expires_at > clock_timestamp()                  -- liveness
 order by l.chain_id, l.submitter
   for key share of l
