-- The nodes that said so lately.
select node_id, advertise_url, draining
  from node
 where heartbeat_at > clock_timestamp() - $1::bigint * interval '1 microsecond'
 order by node_id
