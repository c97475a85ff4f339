-- Puts nonces below the cursor ($4) that nobody has into the pool; returns those (I3).
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline, reason)
select $1, $2, u.nonce, 3, '00000000-0000-0000-0000-000000000000', clock_timestamp(), $5
  from unnest($3::bigint[]) as u (nonce)
 where u.nonce < $4
   and not exists (select 1 from managed_tx m
                    where m.chain_id = $1 and m.submitter = $2 and m.nonce = u.nonce)
on conflict (chain_id, submitter, nonce) do nothing
returning nonce
