import { setTimeout as delay } from 'node:timers/promises'
import type { TestPostgres, TestStack } from '@postern/local-stack/testing'
import type { SmallDisk } from './full-disk.ts'
import type { Links } from './links.ts'
import type { Operation } from './promises.ts'
import type { TcpProxy } from './tcp-proxy.ts'
import type { Traffic } from './traffic.ts'

/** The parts that can be broken. */
export interface World {
  readonly stack: TestStack
  /** The connections between the processes. */
  readonly links: Links
  /** The proxies between clients and each gateway. */
  readonly fronts: readonly TcpProxy[]
  readonly postgres: TestPostgres
  readonly traffic: Traffic
  /** The disk of the evidence; undefined without a separate disk. */
  readonly disk: SmallDisk | undefined
}

/** How processes ended after they were asked to. */
export interface Ending {
  /** When they were asked, on the monotonic clock. Earlier requests must be answered. */
  readonly askedAt: number
  /** Exit codes or signals. */
  readonly exits: readonly (number | NodeJS.Signals | null)[]
}

/** A fault that can be applied and reverted. */
export interface Fault {
  readonly name: string
  /** The affected part. Two faults of one part never overlap. */
  readonly part: string
  /** Whether an operation must continue at a gateway (counted from 0) during the fault. */
  readonly spares: (gateway: number, operation: Operation) => boolean
  /** The gateway that ends or is unreachable, counted from 0. Its clients may get no response. */
  readonly endsGateway?: number
  /** The frozen gateway, counted from 0. */
  readonly freezesGateway?: number
  /** Whether `npm test` includes it. There, one fault represents similar ones. */
  readonly inShortForm?: boolean
  /** Must last longer than a lease to have an effect. */
  readonly outlastsLeases?: boolean
  /** The part with a frozen process, which responds when it continues. */
  readonly freezes?: string
  /** Whether a process is frozen; the long form does it for 1, 3, 10 and 30 s. */
  readonly isFreeze?: boolean
  /** Returns how the processes ended. */
  readonly ending?: () => Ending
  /** Prepares the fault. Returns the reason if this machine cannot run it. */
  prepare?(): Promise<string | undefined>
  apply(): Promise<void>
  /** Resolves when an effect of the fault was observed. */
  seen(): Promise<void>
  heal(): Promise<void>
}

/** Gateways of the load. */
export const gatewayNames = ['gateway-1', 'gateway-2', 'gateway-3'] as const

export const everything: Fault['spares'] = () => true
/** Even known keys are rejected after the leases have ended. */
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

/** Returns what continues without a service or gateway. */
export function without(name: string): Fault['spares'] {
  if (name.startsWith('gateway')) return (gateway) => gateway !== Number(name.replace('gateway-', '')) - 1
  return name === 'keys' ? nothing : (_gateway, operation) => serviceOf[operation] !== name
}

/** The time limit for events that must happen. */
export const patienceMs = 60_000

/** Polls until a condition holds. Fails after the time limit. */
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

/** Runs a task at once and then at an interval, until stopped. */
export function repeat(everyMs: number, task: () => Promise<void>): Repeated {
  let running: Promise<void> | undefined
  const once = (): void => {
    running ??= task()
      // Work that another fault prevented is tried again.
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
