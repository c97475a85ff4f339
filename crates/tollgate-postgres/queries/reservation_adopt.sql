-- Puts nonces below the cursor ($4) that nobody has into the pool; returns those (I3). Each is looked up by itself: `limit 1` keeps the planner from reading all slots of the submitter at once.
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline, reason)
select $1, $2, u.nonce, 3, '00000000-0000-0000-0000-000000000000', clock_timestamp(), $5
  from unnest($3::bigint[]) as u (nonce)
  left join lateral (select true as taken from managed_tx m
                      where m.chain_id = $1 and m.submitter = $2 and m.nonce = u.nonce
                      limit 1) as s on true
 where u.nonce < $4 and s.taken is null
on conflict (chain_id, submitter, nonce) do nothing
returning nonce
