-- Of the next $3 submitters with open work, from above $2 on: those without an owner, and the last one if it is the $3rd. One step along the index of open work for each, none for submitters without work.
with recursive busy (submitter, place) as (
  (select m.submitter, 1::bigint
     from managed_tx m
    where m.chain_id = $1 and m.submitter > $2 and m.finished_at is null
    order by m.submitter
    limit 1)
  union all
  select (select m.submitter
            from managed_tx m
           where m.chain_id = $1 and m.submitter > b.submitter and m.finished_at is null
           order by m.submitter
           limit 1),
         b.place + 1
    from busy b
   where b.submitter is not null and b.place < $3
), seen as (
  select b.submitter, b.place = $3 as is_last,
         coalesce((select l.expires_at <= clock_timestamp()
                     from submitter_lease l
                    where l.chain_id = $1 and l.submitter = b.submitter), true) as is_orphan
    from busy b
   where b.submitter is not null
)
select $1::bigint as chain_id, submitter, is_last, is_orphan
  from seen
 where is_orphan or is_last
 order by submitter
