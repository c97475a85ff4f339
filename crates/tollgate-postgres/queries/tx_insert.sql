-- New transactions, version 1.
insert into managed_tx (tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest,
                        state, version, fencing_token, attempts, valid_until, created_at, updated_at)
select u.tx_id, u.chain_id, u.submitter, u.request_id, u.nonce, u.payload, u.payload_digest,
       u.state, 1, u.token, (u.nonce is not null)::int::smallint, u.valid_until,
       u.created_at, u.created_at
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::bigint[], $6::bytea[],
              $7::bytea[], $8::smallint[], $9::bigint[], $10::timestamptz[], $11::timestamptz[])
       as u (tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest,
             state, token, valid_until, created_at)
