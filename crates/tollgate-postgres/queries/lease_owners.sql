-- Who holds each lease, by the place in the input; a lease that was let go has no owner.
select u.place, l.owner_node, l.fencing_token, n.advertise_url,
       greatest(0, extract(epoch from l.expires_at - clock_timestamp()) * 1000000)::bigint
         as remaining_micros
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join submitter_lease l on l.chain_id = u.chain_id and l.submitter = u.submitter
  left join node n on n.node_id = l.owner_node
 where l.owner_node <> ''
