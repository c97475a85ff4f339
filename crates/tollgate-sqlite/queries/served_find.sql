-- Whether the set of accounts ?1 is published.
select 1 from served_set where digest = ?1
