-- The next number of the feed: given back if the transaction is rolled back, so without gaps (I10).
update completion_counter set last_seq = last_seq + 1 where only_row = 1 returning last_seq
