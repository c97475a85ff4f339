-- Puts nonces below the cursor ($4) into the pool by an operator's word: those that nobody has, those that are there already, and, if $6, those that callers said to use; returns them. A managed transaction keeps its slot (I3).
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline, reason)
select $1, $2, u.nonce, 3, '00000000-0000-0000-0000-000000000000', clock_timestamp(), $5
  from unnest($3::bigint[]) as u (nonce)
  left join lateral (select true as taken from managed_tx m
                      where m.chain_id = $1 and m.submitter = $2 and m.nonce = u.nonce
                      limit 1) as s on true
 where u.nonce < $4 and s.taken is null
on conflict (chain_id, submitter, nonce) do update
   set state = 3, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = excluded.reason, updated_at = clock_timestamp()
 where nonce_reservation.state = 3 or $6 and nonce_reservation.state = 2
returning nonce
