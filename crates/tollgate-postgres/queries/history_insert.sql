-- The audit entries of a batch: one for each version that it makes.
insert into tx_history (tx_id, version, node, fencing_token, event, from_state, to_state, detail)
select u.tx_id, u.version, $1, u.token, u.event, u.from_state, u.to_state, u.detail
  from unnest($2::uuid[], $3::integer[], $4::bigint[], $5::text[], $6::smallint[], $7::smallint[],
              $8::text[])
       as u (tx_id, version, token, event, from_state, to_state, detail)
