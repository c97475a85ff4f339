-- Of the next ?3 submitters of chain ?1 with open work, from above ?2 on: those without a valid lease, and the last one if it is the ?3rd. Neither finished rows nor submitters without work are looked at.
with recursive busy (submitter, place) as (
  select * from (
    select t.submitter, 1
      from managed_tx t indexed by managed_tx_open
     where t.chain_id = ?1 and t.submitter > ?2 and t.finished_at is null
     order by t.submitter
     limit 1)
  union all
  select (select t.submitter
            from managed_tx t indexed by managed_tx_open
           where t.chain_id = ?1 and t.submitter > b.submitter and t.finished_at is null
           order by t.submitter
           limit 1),
         b.place + 1
    from busy b
   where b.submitter is not null and b.place < ?3
), seen as (
  select b.submitter, b.place = ?3 as is_last,
         not exists (
           select 1 from submitter_lease l
            where l.chain_id = ?1 and l.submitter = b.submitter and l.expires_at > db_now()
         ) as is_orphan
    from busy b
   where b.submitter is not null
)
select ?1 as chain_id, submitter, is_last, is_orphan
  from seen
 where is_orphan or is_last
 order by submitter
