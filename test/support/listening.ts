/** The sessions by which processes hear what is notified (src/process/Listener.ts), as a condition on pg_stat_activity: by what they did last. */
export const LISTENING =
  "datname = current_database() AND (query LIKE 'LISTEN %' OR query = 'SELECT pg_notify($1, '''')')"
