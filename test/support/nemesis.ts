import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Destination, ServiceProcessName } from '@postern/local-stack/testing'
import { type Ending, type Fault, type World, everything, gatewayNames, nothing, until, without } from './fault.ts'
import type { Source } from './links.ts'
import { hostFaults } from './nemesis-hosts.ts'
import { storeFaults } from './nemesis-stores.ts'
import type { Operation } from './promises.ts'
import type { Direction, TcpProxy, Which } from './tcp-proxy.ts'

/** Long enough for a gateway to answer all queued requests when it wakes. */
const deafMs = 200
/** The drain time of ending processes, as in deploy/. */
const draining = { POSTERN_DRAIN_MS: '3000' }
/** Longer than a process's own limit, so that its exit code reports a failure. */
const endsWithinMs = 45_000

/**
 * Returns all faults of a stack with three gateways and two processes of each service. The world is read when a fault
 * is applied.
 */
export function faultsOf(worldOf: () => World): Fault[] {
  return [...processFaults(worldOf), ...storeFaults(worldOf), ...networkFaults(worldOf), ...hostFaults(worldOf)]
}

/** Both processes of a service. */
function both(name: 'keys' | 'findings' | 'evidence'): ServiceProcessName[] {
  return [name, `${name}-2`]
}

interface Target {
  readonly name: string
  readonly part: string
  readonly processes: readonly ServiceProcessName[]
  readonly spares: Fault['spares']
  readonly gateway?: number
}

function gateway(index: number): Target {
  const name = gatewayNames[index] ?? 'gateway-1'
  return { name, part: name, processes: [name], spares: without(name), gateway: index }
}

/** One of two processes; the other does the work. */
function oneOf(name: 'keys' | 'findings' | 'evidence'): Target {
  return { name: `one of two ${name}`, part: name, processes: [name], spares: everything }
}

function bothOf(name: 'keys' | 'findings' | 'evidence'): Target {
  return { name: `both ${name}`, part: name, processes: both(name), spares: without(name) }
}

/** Returns the process state: R (running), S (sleeping), T (stopped) and so on. */
async function stateOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)
}

function processFaults(worldOf: () => World): Fault[] {
  const ofProcesses = ({ processes }: Target) => processes.map((name) => worldOf().stack.process(name))
  const restart = async ({ processes }: Target): Promise<void> => {
    await Promise.all(processes.map(async (name) => await worldOf().stack.restart(name)))
  }
  const killed = (target: Target, given: Partial<Fault> = {}): Fault => ({
    name: `${target.name} killed`,
    part: target.part,
    spares: target.spares,
    ...(target.gateway === undefined ? {} : { endsGateway: target.gateway }),
    apply: async () => {
      for (const process of ofProcesses(target)) process.kill('SIGKILL')
    },
    seen: async () => {
      for (const process of ofProcesses(target)) {
        await until('a process that was killed', async () => (await process.exited).signal === 'SIGKILL')
      }
    },
    heal: async () => await restart(target),
    ...given,
  })
  const restarted = (target: Target): Fault => {
    let ending: Ending = { askedAt: 0, exits: [] }
    return {
      name: `${target.name} ended in order, and started again`,
      part: target.part,
      spares: target.spares,
      ...(target.gateway === undefined ? {} : { endsGateway: target.gateway }),
      prepare: async () => {
        await Promise.all(target.processes.map(async (name) => await worldOf().stack.restart(name, draining)))
        return undefined
      },
      apply: async () => {
        const askedAt = performance.now()
        const exits = await Promise.all(ofProcesses(target).map(async (process) => await process.stop(endsWithinMs)))
        ending = { askedAt, exits: exits.map(({ code, signal }) => signal ?? code) }
      },
      seen: async () => {
        for (const process of ofProcesses(target)) {
          await until('a process that has ended', () => !process.running)
        }
      },
      heal: async () => await restart(target),
      ending: () => ending,
    }
  }
  const frozen = (target: Target, given: Partial<Fault> = {}): Fault => ({
    name: `${target.name} frozen`,
    part: target.part,
    spares: target.spares,
    isFreeze: true,
    freezes: target.part,
    ...(target.gateway === undefined ? {} : { freezesGateway: target.gateway }),
    apply: async () => {
      for (const process of ofProcesses(target)) process.kill('SIGSTOP')
    },
    seen: async () => {
      for (const { pid } of ofProcesses(target)) {
        await until('a process that is stopped', async () => (await stateOf(pid)) === 'T')
      }
    },
    heal: async () => {
      for (const process of ofProcesses(target)) process.kill('SIGCONT')
    },
    ...given,
  })
  /** Wakes a moment before its network: only its lease protects against revoked keys in its memory. */
  const frozenAndDeaf = (target: Target): Fault => {
    const plain = frozen(target)
    const links = () =>
      target.processes.flatMap((name) => (['keys', 'redis'] as const).map((to) => worldOf().links.find(name, to)))
    return {
      ...plain,
      name: `${target.name} frozen, and deaf when it wakes`,
      isFreeze: false,
      inShortForm: true,
      outlastsLeases: true,
      apply: async () => {
        for (const link of links()) link.freeze('down')
        await plain.apply()
      },
      heal: async () => {
        await plain.heal()
        await delay(deafMs)
        for (const link of links()) link.heal()
      },
    }
  }
  return [
    killed(gateway(0), { inShortForm: true }),
    restarted(gateway(0)),
    killed(oneOf('keys')),
    killed(bothOf('keys'), { inShortForm: true }),
    restarted(oneOf('keys')),
    restarted(bothOf('keys')),
    killed(oneOf('findings'), { inShortForm: true }),
    killed(bothOf('findings')),
    restarted(oneOf('findings')),
    killed(bothOf('evidence')),
    frozenAndDeaf(gateway(1)),
    frozen(gateway(1), { outlastsLeases: true }),
    frozen(oneOf('keys'), { isFreeze: false }),
    frozen(bothOf('keys'), { inShortForm: true, outlastsLeases: true }),
    frozen(oneOf('findings'), { isFreeze: false }),
    frozen(bothOf('findings')),
  ]
}

function cut(name: string, part: string, proxies: () => TcpProxy[], given: Partial<Fault> = {}): Fault {
  return {
    name,
    part,
    spares: everything,
    apply: async () => {
      for (const proxy of proxies()) proxy.cut()
    },
    // A process without requests may have no connection to lose.
    seen: async () => await until('a connection that is broken', () => proxies().some((proxy) => proxy.broken() > 0)),
    heal: async () => {
      for (const proxy of proxies()) proxy.heal()
    },
    ...given,
  }
}

function silent(
  name: string,
  part: string,
  [direction, which]: readonly [Direction, Which?],
  proxies: () => TcpProxy[],
  given: Partial<Fault> = {},
): Fault {
  return {
    name,
    part,
    spares: everything,
    apply: async () => {
      for (const proxy of proxies()) proxy.freeze(direction, which)
    },
    // If only one of two processes is used, the other has nothing to delay.
    seen: async () => {
      await until('bytes that are held back', () => proxies().some((proxy) => proxy.held() > 0))
    },
    heal: async () => {
      for (const proxy of proxies()) proxy.heal()
    },
    ...given,
  }
}

function networkFaults(worldOf: () => World): Fault[] {
  const linksOf = (froms: readonly Source[], tos: readonly Destination[]): TcpProxy[] =>
    froms.flatMap((from) => tos.map((to) => worldOf().links.find(from, to)))
  const third = without('gateway-3')
  const thirdWithout =
    (service: string): Fault['spares'] =>
    (index: number, operation: Operation) =>
      third(index, operation) || without(service)(index, operation)
  const gateways = (tos: readonly Destination[]) => () => linksOf(gatewayNames, tos)
  const ofThird = (tos: readonly Destination[]) => () => linksOf(['gateway-3'], tos)
  const front = (index: number) => () => worldOf().fronts.slice(index, index + 1)
  return [
    cut('gateway-3 cut off from keys and Redis', 'gateway-3', ofThird(['keys', 'redis']), {
      spares: third,
      inShortForm: true,
      outlastsLeases: true,
    }),
    cut('gateway-3 cut off from keys', 'gateway-3', ofThird(['keys']), { spares: third, outlastsLeases: true }),
    cut('gateway-3 cut off from findings', 'gateway-3', ofThird(['findings']), { spares: thirdWithout('findings') }),
    cut('gateway-3 cut off from its clients', 'clients', front(2), { spares: third, endsGateway: 2 }),
    silent('network from gateway-3 to its clients silent', 'clients', ['down'], front(2), { spares: third }),
    silent('network from clients to gateway-3 silent', 'clients', ['up'], front(2), { spares: third }),
    silent('network from keys to gateway-3 silent', 'gateway-3', ['down'], ofThird(['keys']), {
      spares: third,
      inShortForm: true,
      outlastsLeases: true,
    }),
    silent('network from gateway-3 to keys silent', 'gateway-3', ['up'], ofThird(['keys']), { spares: third }),
    silent('network from findings to gateway-3 silent', 'gateway-3', ['down'], ofThird(['findings']), {
      spares: thirdWithout('findings'),
    }),
    silent('network from Redis to gateway-2 silent', 'pub/sub', ['down'], () => linksOf(['gateway-2'], ['redis'])),
    cut('every process cut off from Redis', 'redis links', () => worldOf().links.to('redis')),
    silent('announcements to every gateway silent', 'pub/sub', ['down', 'marked'], gateways(['redis']), {
      inShortForm: true,
      outlastsLeases: true,
    }),
    silent('announcements to gateway-2 silent', 'pub/sub', ['down', 'marked'], () => linksOf(['gateway-2'], ['redis'])),
    {
      ...cut('subscriptions of every gateway cut', 'pub/sub', gateways(['redis'])),
      apply: async () => {
        for (const proxy of gateways(['redis'])()) proxy.cut('marked')
      },
    },
    silent('network between keys and Redis silent', 'redis links', ['both'], () => linksOf(both('keys'), ['redis'])),
    cut('keys cut off from PostgreSQL', 'database links', () => linksOf(both('keys'), ['database']), {
      spares: nothing,
      inShortForm: true,
    }),
    silent(
      'network between keys and PostgreSQL silent',
      'database links',
      ['both'],
      () => linksOf(both('keys'), ['database']),
      {
        spares: nothing,
        inShortForm: true,
        outlastsLeases: true,
      },
    ),
    silent(
      'network from PostgreSQL to keys silent',
      'database links',
      ['down'],
      () => linksOf(both('keys'), ['database']),
      {
        spares: nothing,
      },
    ),
    cut('findings cut off from PostgreSQL', 'database links', () => linksOf(both('findings'), ['database']), {
      spares: without('findings'),
    }),
    cut('every service cut off from PostgreSQL', 'database links', () => worldOf().links.to('database'), {
      spares: nothing,
    }),
  ]
}
