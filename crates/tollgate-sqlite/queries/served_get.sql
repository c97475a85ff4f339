-- The set of accounts that was published under digest ?1.
select accounts from served_set where digest = ?1
