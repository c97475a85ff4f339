-- The number of the last outcome; 0 before the first.
select last_seq from completion_counter
