-- How much open work submitters have, by the place in the input and by state.
select u.place, m.state, count(*) as depth, min(m.created_at) as oldest
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join managed_tx m on m.chain_id = u.chain_id and m.submitter = u.submitter
 where m.finished_at is null
 group by u.place, m.state
 order by u.place, m.state
