-- I10: numbers outcomes from the counter, whose lock is held until the commit: the order of seq is the order of commits.
with counter as (
  update completion_counter set last_seq = last_seq + cardinality($1::uuid[])
  returning last_seq - cardinality($1::uuid[]) as base
)
insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash)
select counter.base + u.place, u.tx_id, u.chain_id, u.submitter, u.request_id, u.state, u.tx_hash
  from counter,
       unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::smallint[], $6::bytea[])
       with ordinality as u (tx_id, chain_id, submitter, request_id, state, tx_hash, place)
