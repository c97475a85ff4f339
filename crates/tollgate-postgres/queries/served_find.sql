-- Whether a set of accounts is published.
select 1 from served_set where digest = $1
