/**
 * Rate limits (decision J6): a token bucket for each account and environment, and for each address at public pages. They are in
 * memory and cost no look-up; each process counts separately.
 */

/** A burst is two seconds of the sustained rate. */
const BURST_SECONDS = 2
/** Limit of buckets. A full bucket contains no information, so full ones are dropped first. */
const MAX_BUCKETS = 50_000

interface Bucket {
  tokens: number
  at: number
}

interface Taken {
  readonly allowed: boolean
  readonly headers: Readonly<Record<string, string>>
}

export interface RateLimit {
  /** Takes a token of `name`'s bucket. */
  readonly take: (name: string, now?: number) => Taken
}

export const createRateLimit = (perSecond: number): RateLimit => {
  const burst = perSecond * BURST_SECONDS
  const buckets = new Map<string, Bucket>()

  const refill = (bucket: Bucket, now: number): number =>
    Math.min(burst, bucket.tokens + ((now - bucket.at) / 1000) * perSecond)

  const dropFull = (now: number): void => {
    for (const [name, bucket] of buckets) if (refill(bucket, now) >= burst) buckets.delete(name)
    // If none is full, the oldest bucket is dropped.
    if (buckets.size >= MAX_BUCKETS) buckets.delete(buckets.keys().next().value!)
  }

  const at = (name: string, now: number): Bucket => {
    const existing = buckets.get(name)
    if (existing !== undefined) return { tokens: refill(existing, now), at: now }
    return { tokens: burst, at: now }
  }

  const keep = (name: string, bucket: Bucket, now: number): void => {
    if (!buckets.has(name) && buckets.size >= MAX_BUCKETS) dropFull(now)
    buckets.set(name, bucket)
  }

  const takenOf = (tokens: number, allowed: boolean): Taken => {
    const headers: Record<string, string> = {
      "ratelimit-limit": String(burst),
      "ratelimit-remaining": String(Math.floor(tokens)),
      "ratelimit-reset": String(Math.ceil((burst - tokens) / perSecond)),
    }
    if (!allowed) headers["retry-after"] = String(Math.max(1, Math.ceil((1 - tokens) / perSecond)))
    return { allowed, headers }
  }

  return {
    take: (name, now = performance.now()) => {
      const bucket = at(name, now)
      const allowed = bucket.tokens >= 1
      if (allowed) bucket.tokens -= 1
      keep(name, bucket, now)
      return takenOf(bucket.tokens, allowed)
    },
  }
}
