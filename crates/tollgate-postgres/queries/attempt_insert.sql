-- I5: signed forms become durable with the change that makes them.
insert into tx_attempt (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee,
                        max_priority_fee)
select u.tx_id, u.number, u.chain_id, u.tx_hash, u.raw, u.kind, u.gas_limit, u.max_fee,
       u.max_priority_fee
  from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::smallint[],
              $7::bigint[], $8::bigint[], $9::bigint[])
       as u (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee)
