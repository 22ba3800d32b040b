-- Old events are found by their keys, whose IDs begin with the time. An index of ranges of pages (BRIN) finds them only once: where pages
-- are used again, its ranges reach from the oldest event that they ever had to the newest, and all of them are read.
DROP INDEX event_recorded;
