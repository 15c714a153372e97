import { hash } from 'node:crypto'
import { z } from 'zod'
import type { Seal } from '../session/seal.ts'
import { randomId } from '../session/sessions.ts'
import type { Secrets } from './provider.ts'

/**
 * A sign-in that is under way. It lies in a sealed cookie of the browser that began it, so that nobody else can finish it
 * and a flood of beginnings fills no memory of ours.
 */
export interface Attempt extends Secrets {
  readonly issuer: string
  /** Milliseconds since the epoch. */
  readonly begunAt: number
  /** Where the person wanted to go: a path of ours. */
  readonly returnTo: string
}

const attemptSchema = z.object({
  state: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  issuer: z.string(),
  begunAt: z.number(),
  returnTo: z.string(),
})

/** Long enough for a password, a second factor, and a look for the telephone. */
export const attemptLifeMs = 600_000
/** Tabs that begin at the same time; beyond that the oldest are given up, or cookies would fill the browser. */
export const maxAttempts = 5

export function newAttempt(given: Pick<Attempt, 'issuer' | 'begunAt' | 'returnTo'>): Attempt {
  return { ...given, state: randomId(), nonce: randomId(), codeVerifier: randomId() }
}

/** By what the cookie of an attempt is named: several tabs have several. */
export function attemptId(state: string): string {
  return hash('sha256', state, 'base64url').slice(0, 16)
}

export function sealAttempt(seal: Seal, attempt: Attempt): string {
  return seal.close(JSON.stringify(attempt), attemptId(attempt.state), '')
}

/** The attempt of a cookie; undefined unless it is the one of this state and not too old. */
export function openAttempt(seal: Seal, sealed: string | undefined, state: string, now: number): Attempt | undefined {
  const text = sealed === undefined ? undefined : seal.open(sealed, attemptId(state), '')
  if (text === undefined) return undefined
  const attempt = attemptSchema.parse(JSON.parse(text))
  return attempt.state === state && now - attempt.begunAt < attemptLifeMs ? attempt : undefined
}

/**
 * A path of ours to go to after the sign-in, `/` for anything else: what could lead to another site (`//`, `\`, a scheme),
 * hold control characters, or begin another sign-in.
 */
export function safeReturnTo(given: string | undefined, origin: string): string {
  if (given === undefined || given.length > 2000 || !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(given)) return '/'
  if (!URL.canParse(given, origin)) return '/'
  const url = new URL(given, origin)
  if (url.origin !== origin || /^\/(?:auth|api)(?:\/|$)/.test(url.pathname)) return '/'
  return url.pathname + url.search + url.hash
}
