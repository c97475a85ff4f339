-- The set of accounts that was published under a digest.
select accounts from served_set where digest = $1
