import { type FakeClock, type ServiceProcessName, makeFakeClock } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { type Fault, type World, nothing, until, without } from './fault.ts'

/** Faults of the machines. */
export function hostFaults(worldOf: () => World): Fault[] {
  return [fullDisk(worldOf), ...clockFaults(worldOf)]
}

function fullDisk(worldOf: () => World): Fault {
  return {
    name: 'disk of evidence full',
    part: 'evidence',
    spares: without('evidence'),
    inShortForm: true,
    prepare: async () => (worldOf().disk === undefined ? 'this account may not mount a file system' : undefined),
    apply: async () => await worldOf().disk?.fill(),
    seen: async () => {
      await worldOf().traffic.ended('a file is rejected because the disk is full', ({ operation, status }) => {
        return operation === 'upload' && status === 507
      })
    },
    heal: async () => await worldOf().disk?.free(),
  }
}

const hourMs = 3_600_000

/** A process restarted with its own clock, which jumps and can be read. */
interface Timed {
  readonly name: string
  readonly part: string
  readonly spares: Fault['spares']
  readonly endsGateway?: number
  start(env: Readonly<Record<string, string>>): Promise<void>
  /** Milliseconds since the epoch. */
  now(): Promise<number>
}

function clockFaults(worldOf: () => World): Fault[] {
  const processOf = (name: ServiceProcessName, url: () => string, given: Omit<Timed, 'start' | 'now'>): Timed => ({
    ...given,
    start: async (env) => await worldOf().stack.restart(name, env),
    now: async () => {
      const answer = await fetch(url())
      await answer.body?.cancel()
      return Date.parse(answer.headers.get('date') ?? '')
    },
  })
  const service = (name: 'keys' | 'findings'): Timed =>
    processOf(name, () => `${worldOf().stack.serviceUrl(name)}/internal/health/live`, {
      name: `one of two ${name}`,
      part: name,
      spares: without(name),
    })
  const timed: Timed[] = [
    processOf('gateway-1', () => `${worldOf().stack.gateways[0] ?? ''}/`, {
      name: 'gateway-1',
      part: 'gateway-1',
      spares: without('gateway-1'),
      endsGateway: 0,
    }),
    service('keys'),
    service('findings'),
    {
      name: 'PostgreSQL',
      part: 'database',
      // It rejects all assertions, so tenant requests fail.
      spares: nothing,
      start: async (env) => await worldOf().postgres.restart(env),
      now: async () => await timeOf(worldOf().stack.database.url('superuser')),
    },
  ]
  return timed.flatMap((one) => [clockJumps(worldOf, one, hourMs), clockJumps(worldOf, one, -hourMs)])
}

async function timeOf(connectionString: string): Promise<number> {
  const client = new Client({ connectionString })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query<{ at: Date }>('select clock_timestamp() as at')
    return rows[0]?.at.getTime() ?? Number.NaN
  } finally {
    await client.end()
  }
}

function clockJumps(worldOf: () => World, timed: Timed, byMs: number): Fault {
  const { start, now, ...given } = timed
  let clock: FakeClock | undefined
  const tolerance = hourMs / 60
  const offBy = async (): Promise<number> => (await now()) - Date.now()
  /** Resolves when the clock is ahead by this time, within a minute. An unreachable clock counts as right. */
  const isOff = async (ms: number): Promise<void> => {
    await until(`the clock of ${timed.name} is ${ms} ms ahead`, async () => {
      const off = await offBy().catch(() => 0)
      return Math.abs(off - ms) < tolerance
    })
  }
  return {
    ...given,
    name: `clock of ${timed.name} an hour ${byMs > 0 ? 'ahead' : 'behind'}`,
    outlastsLeases: true,
    prepare: async () => {
      const made = await makeFakeClock()
      if (typeof made === 'string') return made
      clock = made
      await start(made.env)
      return undefined
    },
    apply: async () => await clock?.set(byMs / 1000),
    seen: async () => await isOff(byMs),
    heal: async () => {
      try {
        // It jumps back under load before the process uses the machine's clock again.
        await clock?.set(0)
        await isOff(0)
      } finally {
        // In any case, later faults start with the machine's clock.
        await start({})
        await clock?.remove()
      }
      await until(`${timed.name} tells the time of the machine`, async () => {
        const off = await offBy().catch(() => Number.NaN)
        return Math.abs(off) < tolerance
      })
    },
  }
}
