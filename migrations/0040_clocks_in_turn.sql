-- Clocks are taken account by account, those first that have waited longest: however many an account sends on their way.
DROP INDEX test_clock_advancing;
CREATE INDEX test_clock_advancing ON test_clock (account_id, waiting_since NULLS FIRST) WHERE state = 'advancing';
CREATE INDEX test_clock_moving ON test_clock (account_id) WHERE state = 'advancing' AND runner IS NOT NULL;
