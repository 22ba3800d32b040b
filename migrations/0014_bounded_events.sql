-- An event as webhooks deliver it has at most 64 KiB: its data, and 1,024 bytes for what stands beside it.

-- Not of events from before, which are deleted after 30 days.
ALTER TABLE event ADD CONSTRAINT event_data_bounded CHECK (octet_length(data) <= 64512) NOT VALID;
