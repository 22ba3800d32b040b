-- A subscription whose last period is over is shown as it was until the charge for the units of that period is answered (decision E34): one
-- that is paused by request stays so, and has a bill.
ALTER TABLE subscription
  DROP CONSTRAINT subscription_paused_by_request,
  ADD CONSTRAINT subscription_paused_by_request CHECK ((pause IS NOT NULL) = (state = 'paused') OR state = 'ending') NOT VALID,
  DROP CONSTRAINT subscription_paused_owes_nothing,
  ADD CONSTRAINT subscription_paused_owes_nothing CHECK (pause IS NULL OR bill IS NULL OR state = 'ending') NOT VALID;
COMMENT ON COLUMN subscription.pause IS 'While paused by request, and while what was paused ends: since when, and when it resumes by itself (null: when asked to).';

COMMENT ON VIEW finance.unbilled_units IS 'Units reported and not billed: pending until the next bill, unbilled for good where the subscription was cancelled without one. Amounts at the plan''s present price. Those of trials are free and not among them.';
