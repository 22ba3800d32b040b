-- Lists filtered by two columns that many rows share are found as fast as by one: of a plan with a million subscriptions the few that are
-- past due, say.
CREATE INDEX subscription_plan_status ON subscription (plan_id, status, account_id, livemode, id);
CREATE INDEX nudge_channel_status ON nudge (channel, status, account_id, livemode, id);
