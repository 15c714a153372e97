import { isProtectedUrl } from '@postern/contracts/internal'
import { createRemoteJWKSet, customFetch } from 'jose'
import { z } from 'zod'
import { shorten } from './refusal.ts'
import type { SignInProvider } from './settings.ts'

export type KeySet = ReturnType<typeof createRemoteJWKSet>

/** For discovery and keys together. */
const keysTimeoutMs = 3000
/** The pause after a failure of the provider, because each invented token would ask it again. */
const pauseMs = 1000
/** Until then tokens with unknown key ids get 401, because strangers could cause 503 with invented ones. */
const keysReadEveryMs = 5000
const maxDocumentBytes = 1_048_576

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url(), userinfo_endpoint: z.url().optional() })
const keySetSchema = z.looseObject({ keys: z.array(z.looseObject({})) })

type KeyOwner = Pick<SignInProvider, 'issuer' | 'allowHttp'>

/** Repeats discovery each time. If keys cannot be read, those of the last ten minutes are used. */
export function openKeySet(provider: KeyOwner): KeySet {
  let failure: { readonly error: unknown; readonly at: number } | undefined
  return createRemoteJWKSet(new URL(provider.issuer), {
    timeoutDuration: keysTimeoutMs,
    cooldownDuration: keysReadEveryMs,
    [customFetch]: async (_issuer, options) => {
      if (failure !== undefined && performance.now() - failure.at < pauseMs) throw failure.error
      try {
        const { jwks_uri: keysAt } = await discover(provider, options)
        return Response.json(keySetSchema.parse(await readJson(keysAt, options, 'key set')))
      } catch (cause) {
        // jose wraps this error for each waiting token.
        const isLate = cause instanceof Error && cause.name === 'TimeoutError'
        const error = isLate ? new Error('the provider takes too long to answer', { cause }) : cause
        failure = { error, at: performance.now() }
        throw error
      }
    },
  })
}

export async function discover(
  { issuer, allowHttp }: KeyOwner,
  options: RequestInit,
): Promise<z.output<typeof discoverySchema>> {
  // A final slash belongs only to the issuer (OIDC Discovery, section 4.1).
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const document = discoverySchema.parse(await readJson(address, options, 'discovery'))
  // OIDC Discovery, section 4.3.
  if (document.issuer !== issuer) {
    throw new Error(`discovery names another issuer: found ${shorten(document.issuer)}, wanted ${shorten(issuer)}`)
  }
  // Over plain HTTP, anyone on the path could replace the keys.
  if (!allowHttp && !isProtectedUrl(document.jwks_uri)) throw new Error('discovery names keys over plain HTTP')
  return document
}

async function readJson(address: string, options: RequestInit, what: string): Promise<unknown> {
  const answer = await fetch(address, options)
  if (answer.status !== 200) {
    await answer.body?.cancel()
    throw new Error(`${what} answered ${answer.status}`)
  }
  return JSON.parse(await readText(answer, what, maxDocumentBytes))
}

/** Rejects a larger answer, because a faulty provider must not fill the memory. */
export async function readText({ body }: Response, what: string, maxBytes: number): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body ?? []) {
    bytes += part.length
    if (bytes > maxBytes) throw new Error(`${what} answered with more than ${maxBytes} bytes`)
    parts.push(part)
  }
  return new TextDecoder().decode(Buffer.concat(parts))
}
