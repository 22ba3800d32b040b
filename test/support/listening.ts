/** A condition on pg_stat_activity for listening sessions (src/process/Listener.ts): by their last statement. */
export const LISTENING =
  "datname = current_database() AND (query LIKE 'LISTEN %' OR query = 'SELECT pg_notify($1, '''')')"
