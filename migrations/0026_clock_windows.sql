-- Test clocks move in windows of time, through which each customer goes in an order of its own (decision M7).

ALTER TABLE test_clock ADD COLUMN window_to_at timestamptz, ADD COLUMN window_opened_at timestamptz;
ALTER TABLE test_clock ADD CONSTRAINT test_clock_window CHECK ((window_to_at IS NULL) = (window_opened_at IS NULL) AND (window_to_at IS NULL OR state <> 'ready'));
COMMENT ON COLUMN test_clock.window_to_at IS 'While it advances: the end of the window that begins at frozen_at. All that is due in it fires before the clock moves on.';
COMMENT ON COLUMN test_clock.window_opened_at IS 'When the window was opened, by the wall clock: IDs of what is made in it begin with this time.';

ALTER TABLE timer ADD COLUMN customer_id text COLLATE "C";
UPDATE timer t SET customer_id = coalesce(
  (SELECT customer_id FROM subscription a WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)),
  (SELECT customer_id FROM charge a WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)),
  (SELECT customer_id FROM nudge a WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)),
  (SELECT customer_id FROM checkout_session a WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)),
  (SELECT customer_id FROM instalment_plan a WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)),
  actor_id)
WHERE test_clock_id IS NOT NULL;
ALTER TABLE timer ADD CONSTRAINT timer_customer_of_clock CHECK ((customer_id IS NOT NULL) = (test_clock_id IS NOT NULL));
COMMENT ON COLUMN timer.customer_id IS 'On a test clock: whose it is. Customers of a clock go through its time independently of each other.';
