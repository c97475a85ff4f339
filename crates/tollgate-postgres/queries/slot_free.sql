-- Puts the nonces of rejected transactions into the pool. Fewer rows than places: a caller holds one (I3).
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline, reason)
select u.chain_id, u.submitter, u.nonce, 3, '00000000-0000-0000-0000-000000000000',
       clock_timestamp(), 'slot recycled'
  from unnest($1::bigint[], $2::bytea[], $3::bigint[]) as u (chain_id, submitter, nonce)
on conflict (chain_id, submitter, nonce) do update
   set state = 3, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = excluded.reason, updated_at = clock_timestamp()
 where nonce_reservation.state = 2
