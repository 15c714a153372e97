import { setTimeout as delay } from 'node:timers/promises'
import type { TestPostgres, TestStack } from '@postern/local-stack/testing'
import type { SmallDisk } from './full-disk.ts'
import type { Links } from './links.ts'
import type { Operation } from './promises.ts'
import type { TcpProxy } from './tcp-proxy.ts'
import type { Traffic } from './traffic.ts'

/** What can be broken. */
export interface World {
  readonly stack: TestStack
  /** Between the processes. */
  readonly links: Links
  /** Before each gateway, between it and its clients. */
  readonly fronts: readonly TcpProxy[]
  readonly postgres: TestPostgres
  readonly traffic: Traffic
  /** Where evidence keeps its bytes; undefined where it is no disk of its own. */
  readonly disk: SmallDisk | undefined
}

/** What became of processes that were asked to end. */
export interface Ending {
  /** When they were asked, on the monotonic clock: what had reached them before is answered. */
  readonly askedAt: number
  /** Exit codes, or the signals that have ended them. */
  readonly exits: readonly (number | NodeJS.Signals | null)[]
}

/** Something that breaks, and is mended. */
export interface Fault {
  readonly name: string
  /** What it does something to: two faults of one part never last at the same time. */
  readonly part: string
  /** Whether an operation must go on at a gateway, counted from 0, while the fault lasts. */
  readonly spares: (gateway: number, operation: Operation) => boolean
  /** The gateway that ends or cannot be reached, counted from 0: its clients may be left without an answer. */
  readonly endsGateway?: number
  /** The gateway that is frozen, counted from 0. */
  readonly freezesGateway?: number
  /** Whether `npm test` has it. Another fault speaks there for each of the others. */
  readonly inShortForm?: boolean
  /** Shorter than a lease, it would end before anything is seen of it. */
  readonly outlastsLeases?: boolean
  /** The part of which a process stands still: what is asked of it is answered once it goes on. */
  readonly freezes?: string
  /** Whether it is a process that stands still: the long form has it for 1, 3, 10 and 30 s. */
  readonly isFreeze?: boolean
  /** How processes that were asked to end have ended, once they have. */
  readonly ending?: () => Ending
  /** Gets ready what the fault needs, while all is well; gives the reason, in one line, why it cannot be had here. */
  prepare?(): Promise<string | undefined>
  apply(): Promise<void>
  /** Resolves when something was seen that only the fault can do: it has taken hold. */
  seen(): Promise<void>
  heal(): Promise<void>
}

/** Gateways of the load. */
export const gatewayNames = ['gateway-1', 'gateway-2', 'gateway-3'] as const

export const everything: Fault['spares'] = () => true
/** Also keys in memory are refused once the leases have run out. */
export const nothing: Fault['spares'] = () => false

const serviceOf: Readonly<Record<Operation, 'gateway' | 'findings' | 'universe' | 'evidence' | 'sync'>> = {
  whoami: 'gateway',
  list: 'findings',
  create: 'findings',
  entities: 'universe',
  push: 'universe',
  upload: 'evidence',
  connectors: 'sync',
}

/** What goes on without a service, or without a gateway. */
export function without(name: string): Fault['spares'] {
  if (name.startsWith('gateway')) return (gateway) => gateway !== Number(name.replace('gateway-', '')) - 1
  return name === 'keys' ? nothing : (_gateway, operation) => serviceOf[operation] !== name
}

/** For so long something is waited for that has to come. */
export const patienceMs = 60_000

/** Asks again and again until something has come to pass; fails when it never does. */
export async function until(what: string, check: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + patienceMs
  while (!(await check())) {
    if (performance.now() > deadline) throw new Error(`was not seen in ${patienceMs / 1000} s: ${what}`)
    await delay(50)
  }
}

export interface Repeated {
  stop(): Promise<void>
}

/** Does something at once and then every so many milliseconds, until stopped. */
export function repeat(everyMs: number, task: () => Promise<void>): Repeated {
  let running: Promise<void> | undefined
  const once = (): void => {
    running ??= task()
      // What another fault has broken too is tried again.
      .catch(() => undefined)
      .finally(() => {
        running = undefined
      })
  }
  once()
  const timer = setInterval(once, everyMs)
  return {
    stop: async () => {
      clearInterval(timer)
      await running
    },
  }
}
