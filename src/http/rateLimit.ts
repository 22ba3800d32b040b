/**
 * Rate limits (decision J6): a token bucket for each account and environment, and for each address at public pages. In
 * memory, so they cost no look-up; each process counts by itself.
 */

/** A burst is twice what is sustained in a second. */
const BURST_SECONDS = 2
/** Buckets kept; a full one says nothing, and these are dropped first. */
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
    // All of them busy: the oldest starts again.
    if (buckets.size >= MAX_BUCKETS) buckets.delete(buckets.keys().next().value!)
  }

  const at = (name: string, now: number): Bucket => {
    const known = buckets.get(name)
    if (known !== undefined) return { tokens: refill(known, now), at: now }
    return { tokens: burst, at: now }
  }

  const keep = (name: string, bucket: Bucket, now: number): void => {
    if (!buckets.has(name) && buckets.size >= MAX_BUCKETS) dropFull(now)
    buckets.set(name, bucket)
  }

  const said = (tokens: number, allowed: boolean): Taken => {
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
      return said(bucket.tokens, allowed)
    },
  }
}
