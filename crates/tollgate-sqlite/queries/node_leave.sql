-- A node is off the list.
delete from node where node_id = ?1
