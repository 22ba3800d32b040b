-- Events that are no longer kept are deleted every minute. What looks for them reads the pages that the index by time does not know
-- yet, and those of which everything is deleted but not vacuumed: of 20 million events, by default, up to four million rows of each.
ALTER INDEX event_recorded SET (autosummarize = on);
ALTER TABLE event SET (autovacuum_vacuum_scale_factor = 0.01);
