import { z } from 'zod'
import { type Compose, doubled } from './compose.ts'

const entrySchema = z.looseObject({
  level: z.enum(['warn', 'error', 'fatal']),
  service: z.string(),
  event: z.string(),
  err: z.looseObject({ message: z.string().optional(), code: z.unknown().optional() }).optional(),
})

export async function findCauses(system: Compose, since: Date): Promise<string> {
  const counts: Record<string, number> = {}
  for (const name of [...system.installation.gateways.map((gateway) => gateway.name), ...doubled]) {
    for (const container of await system.containers(name)) {
      const text = await system.docker(['logs', '--since', since.toISOString(), container]).catch(() => '')
      for (const line of text.split('\n')) {
        const entry = entrySchema.safeParse(parse(line))
        if (!entry.success) continue
        const { service, event, err } = entry.data
        const cause = `${service} ${event}: ${err?.message ?? ''} ${String(err?.code ?? '')}`.trimEnd()
        counts[cause] = (counts[cause] ?? 0) + 1
      }
    }
  }
  return Object.entries(counts)
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, 12)
    .map(([cause, count]) => `  ${count} times ${cause}\n`)
    .join('')
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
