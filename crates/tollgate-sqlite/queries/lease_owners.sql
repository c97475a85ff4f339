-- Who holds a lease and for how long yet; no row if it was never taken or was let go.
select l.owner_node, l.fencing_token, n.advertise_url, max(l.expires_at - db_now(), 0) as remaining
  from submitter_lease l
  left join node n on n.node_id = l.owner_node
 where l.chain_id = ?1 and l.submitter = ?2 and l.owner_node <> ''
