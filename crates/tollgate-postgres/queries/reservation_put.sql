-- Puts a nonce into a caller's hands.
insert into nonce_reservation (chain_id, submitter, nonce, state, owner_token, deadline)
values ($1, $2, $3, 1, $4, clock_timestamp() + $5::bigint * interval '1 microsecond')
on conflict (chain_id, submitter, nonce) do update
   set state = 1, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = null, updated_at = clock_timestamp()
 where nonce_reservation.state = 3
returning deadline
