-- The lease's row as it stands: owner, time left, and whether its time and the skew (?3) are over.
select l.owner_node, l.fencing_token, n.advertise_url,
       max(l.expires_at - db_now(), 0) as remaining,
       l.expires_at > db_now() as is_valid,
       l.expires_at + ?3 <= db_now() as is_over
  from submitter_lease l
  left join node n on n.node_id = l.owner_node
 where l.chain_id = ?1 and l.submitter = ?2
