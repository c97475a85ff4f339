-- Forgets sets of accounts that no node on the list names and that were published more than ?1 microseconds ago.
delete from served_set
 where published_at < db_now() - ?1
   and not exists (select 1 from node n where n.serves = served_set.digest)
