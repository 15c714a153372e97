export type Hits = Readonly<Record<string, number>>

export async function readHits(adminPort: number): Promise<Hits> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/internal/metrics`)
  const lines = (await answer.text()).matchAll(
    /^postern_gateway_key_lookups_total\{[^}]*level="([a-z]+)"[^}]*\} (\d+)/gm,
  )
  return Object.fromEntries([...lines].map(([, level = '', count]) => [level, Number(count)]))
}

export function hitsBetween(before: Hits, after: Hits): Hits {
  return Object.fromEntries(Object.entries(after).map(([level, count]) => [level, count - (before[level] ?? 0)]))
}

export function sharesOf(hits: Hits): Hits {
  const all = Object.values(hits).reduce((sum, count) => sum + count, 0)
  return Object.fromEntries(Object.entries(hits).map(([level, count]) => [level, (100 * count) / all]))
}

/** In percentage points; NaN without data. */
export function hitsApart(all: readonly Hits[]): number {
  const shares = all.map(sharesOf)
  const levels = new Set(shares.flatMap((one) => Object.keys(one)))
  if (levels.size === 0) return Number.NaN
  const apart = [...levels].map((level) => {
    const found = shares.map((one) => one[level] ?? 0)
    return Math.max(...found) - Math.min(...found)
  })
  return Math.max(...apart)
}
