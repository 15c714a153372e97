import { setTimeout as wait } from 'node:timers/promises'
import type { httpAuthSchema } from '@postern/contracts'
import type { z } from 'zod'
import type { OutboundHttp } from '../../outbound/outbound.ts'
import { SourceReadError } from '../source-read-error.ts'
import { MarkingDecoder } from '../marking-decoder.ts'
import type { SourceContext, SourceLimits } from '../types.ts'
import { requestOk } from './request.ts'
import { credentialHeaders, requireSecret, staticSecretNames } from './authorize.ts'
import { type TokenSource, openTokenSource } from './client-credentials.ts'

type HttpAuth = z.output<typeof httpAuthSchema>

export const httpSecretNames: readonly string[] = [...staticSecretNames, 'client_secret']

const maxTries = 3
const firstDelayMs = 250

export interface PageAnswer {
  readonly text: string
  readonly link: string | undefined
}

/** The function takes the number of the page for error messages. */
export function createPageReader(
  { auth, accept }: { readonly auth: HttpAuth; readonly accept: string },
  { secrets, signal, limits }: Pick<SourceContext<unknown>, 'secrets' | 'signal' | 'limits'>,
  http: OutboundHttp,
): (url: URL, page: number) => Promise<PageAnswer> {
  let tokens: TokenSource | undefined
  let credentials: () => Promise<Readonly<Record<string, string>>>
  if (auth.kind === 'oauth_client_credentials') {
    const source = openTokenSource(auth, requireSecret(secrets, 'client_secret'), http, signal)
    tokens = source
    credentials = async () => ({ authorization: `Bearer ${await source.token()}` })
  } else {
    credentials = async () => credentialHeaders(auth, secrets)
  }
  const askOnce = async (url: URL, page: number): Promise<PageAnswer> => {
    const headers = { accept, ...(await credentials()) }
    const answer = await requestOk(http, { url: url.href, headers, signal })
    return { text: await readText(answer.body, limits, page), link: answer.headers['link'] }
  }
  return async (url, page) => {
    for (let tries = 1; ; tries++) {
      try {
        return await askOnce(url, page)
      } catch (error) {
        const isTokenStale = tokens !== undefined && error instanceof SourceReadError && error.code === 'not_authorized'
        if (isTokenStale) tokens?.forget()
        const isTemporary = error instanceof SourceReadError && error.retryable && !error.isThrottled
        const isRetried = isTokenStale ? tries === 1 : isTemporary
        if (!isRetried || tries === maxTries) throw error
        await wait(firstDelayMs * 2 ** (tries - 1), undefined, { signal })
      }
    }
  }
}

async function readText(
  body: AsyncIterable<Uint8Array>,
  { maxPageBytes }: SourceLimits,
  page: number,
): Promise<string> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of body) {
    length += part.length
    if (length > maxPageBytes) {
      throw new SourceReadError(
        'page_too_large',
        `page ${page} has more than ${maxPageBytes} bytes: request smaller pages`,
      )
    }
    parts.push(part)
  }
  const decoder = new MarkingDecoder('utf-8')
  return decoder.decode(Buffer.concat(parts)) + decoder.decode()
}
