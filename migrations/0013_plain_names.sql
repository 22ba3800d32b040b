-- One name for one thing: what a process has in hand is in `runner` everywhere; columns say what they hold in plain words.

ALTER TABLE charge RENAME COLUMN sender TO runner;
ALTER INDEX charge_sender RENAME TO charge_runner;
ALTER TABLE nudge RENAME COLUMN sender TO runner;
ALTER TABLE nudge RENAME COLUMN told TO announced;
ALTER TABLE subscription RENAME COLUMN told_charge_id TO announced_charge_id;
ALTER TABLE plan RENAME COLUMN reminders_planned_to TO reminders_rescheduled_to;
COMMENT ON COLUMN charge.runner IS 'The process that is talking to the rail about this charge; null while nobody is.';
COMMENT ON COLUMN nudge.runner IS 'The process that is giving it to a messenger, since taken_at; null while nobody is.';
COMMENT ON COLUMN nudge.announced IS 'The nudge as the newest event about it showed it; null where there is none.';
COMMENT ON COLUMN subscription.announced_charge_id IS 'The latest charge as the newest event about the subscription showed it: what the next one says it was before.';
COMMENT ON COLUMN plan.reminders_rescheduled_to IS 'While the rules for reminders have changed: the last subscription on the wall clock that follows them; null otherwise.';

-- A clock's columns are the snapshot of its machine, like those of every other actor.
ALTER TABLE test_clock ADD COLUMN target_at timestamptz, ADD COLUMN failed_steps integer NOT NULL DEFAULT 0;
UPDATE test_clock SET failed_steps = (context->>'failedSteps')::integer,
  target_at = to_timestamp((context->>'targetAt')::bigint / 1000) + make_interval(secs => ((context->>'targetAt')::bigint % 1000) / 1000.0);
ALTER TABLE test_clock DROP COLUMN context, ALTER COLUMN failed_steps DROP DEFAULT;
ALTER TABLE test_clock ADD CONSTRAINT test_clock_advancing_has_target CHECK ((state = 'ready') <= (target_at IS NULL));
COMMENT ON COLUMN test_clock.target_at IS 'Where an advance is going; null while the clock stands still.';
COMMENT ON COLUMN test_clock.failed_steps IS 'Steps of the advance that failed in a row.';

-- Every enumeration is held by the database (test/schema.test.ts compares them with the declarations).
ALTER TABLE subscription
  ADD CONSTRAINT subscription_billing_cycle_known CHECK (billing_cycle IN ('daily', 'weekly', 'monthly', 'quarterly', 'per_delivery')),
  ADD CONSTRAINT subscription_cancel_reason_known CHECK (cancel_reason IS NULL OR cancel_reason IN ('customer_request', 'merchant_request', 'nonpayment', 'checkout_expired', 'other')),
  ADD CONSTRAINT subscription_cancellation_reason_known CHECK (cancellation_reason IS NULL OR cancellation_reason IN ('customer_request', 'merchant_request', 'nonpayment', 'checkout_expired', 'other'));
ALTER TABLE invoice ADD CONSTRAINT invoice_currency_ngn CHECK (currency = 'NGN');
ALTER TABLE provider_history
  ADD CONSTRAINT provider_history_previous_vertical_known CHECK (previous_vertical IS NULL OR previous_vertical IN ('generic', 'estate_management', 'meal_plan', 'gym_fitness', 'insurance', 'waste', 'fuel', 'laundry', 'ecommerce')),
  ADD CONSTRAINT provider_history_new_vertical_known CHECK (new_vertical IN ('generic', 'estate_management', 'meal_plan', 'gym_fitness', 'insurance', 'waste', 'fuel', 'laundry', 'ecommerce'));

-- Comments point at what is in the repository: docs/decisions.md.
DO $$
DECLARE c record;
BEGIN
  FOR c IN
    SELECT d.objoid::regclass AS name, a.attname AS col, d.description FROM pg_description d
    JOIN pg_class t ON t.oid = d.objoid AND t.relnamespace = 'public'::regnamespace AND t.relkind = 'r'
    LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0
    WHERE d.classoid = 'pg_class'::regclass AND d.description ~ '\(spec [0-9.]+'
  LOOP
    EXECUTE CASE WHEN c.col IS NULL THEN format('COMMENT ON TABLE %s IS ', c.name) ELSE format('COMMENT ON COLUMN %s.%I IS ', c.name, c.col) END
      || quote_literal(regexp_replace(regexp_replace(c.description, ' \(spec [0-9.]+\)', '', 'g'), 'spec [0-9.]+, (decision)', '\1', 'g'));
  END LOOP;
END $$;
