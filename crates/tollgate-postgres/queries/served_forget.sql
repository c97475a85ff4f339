-- Forgets sets of accounts that no node on the list names, a day after they were published.
delete from served_set s
 where s.published_at < clock_timestamp() - interval '1 day'
   and not exists (select 1 from node n where n.serves = s.digest)
