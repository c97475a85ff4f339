-- A transaction that nodes answered with missing funds, and nothing else, says so.
insert into tx_state (code, state, sub_state) values (22, 'ALLOCATED', 'INSUFFICIENT_FUNDS');
