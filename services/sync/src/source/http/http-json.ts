import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import type { OutboundHttp } from '../../outbound/outbound.ts'
import { SourceFailure } from '../failure.ts'
import { type SourceContext, type SourceItem, type SourceType, defineSourceType } from '../types.ts'
import { askOnceReady } from './ask.ts'
import { credentialHeaders, requireSecret, staticAuthSchema, staticSecretNames } from './authorize.ts'
import { openTokenSource } from './client-credentials.ts'
import { caSchema, line, urlSchema } from './fields.ts'
import { followPointer, parseJson, pointerPattern, toJsonItem } from './json-items.ts'
import { firstPage, nextPage, pagingSchema } from './paging.ts'

const configSchema = z.strictObject({
  url: urlSchema,
  auth: z
    .discriminatedUnion('kind', [
      ...staticAuthSchema.options,
      z.strictObject({
        kind: z.literal('oauth_client_credentials'),
        token_url: urlSchema,
        client_id: line(255),
        scope: line(1000).optional(),
      }),
    ])
    .default({ kind: 'none' }),
  ca: caSchema.optional(),
  /** Where in an answer the list of items is. */
  items: z.string().max(255).regex(pointerPattern, { message: 'must be a JSON Pointer' }).default(''),
  paging: pagingSchema.default({ kind: 'none' }),
})
type HttpJsonConfig = z.output<typeof configSchema>

/** Pages of JSON that a server gives over HTTP. */
export const httpJson: SourceType = defineSourceType({
  type: 'http_json',
  configSchema,
  secretNames: [...staticSecretNames, 'client_secret'],
  read: readHttpJson,
})

/** A page is held whole while it is parsed. */
const maxPageBytes = 32 * 1024 * 1024
const maxTries = 3
const firstDelayMs = 250

async function* readHttpJson(context: SourceContext<HttpJsonConfig>): AsyncGenerator<SourceItem> {
  const { config, limits, outbound, signal } = context
  const http = outbound.http({ ca: config.ca, maxBytes: limits.maxBytes, maxSilenceMs: limits.maxSilenceMs })
  try {
    const ask = createAsker(context, http)
    let url: URL | undefined = firstPage(config.url, config.paging)
    let row = 0
    let before = ''
    for (let number = 1; url !== undefined; number++) {
      if (number > limits.maxPages) throw endless(`the source has more than ${limits.maxPages} pages`)
      const { text, link } = await ask(url)
      const document = parseJson(text)
      const items = followPointer(document, config.items)
      if (!Array.isArray(items)) {
        const message = `page ${number} holds no list at \`${config.items}\`: set \`items\` to where the list is`
        throw new SourceFailure('items_missing', message)
      }
      const digest = createHash('sha256').update(text).digest('base64')
      if (items.length > 0 && digest === before) {
        throw endless(`page ${number} is the same as the one before it: check the paging of the connector`)
      }
      before = digest
      for (const item of items) {
        row++
        yield toJsonItem(item, row, limits)
      }
      signal.throwIfAborted()
      url = nextPage({ url, number, document, link, isEmpty: items.length === 0 }, config.paging)
    }
  } finally {
    await http.close()
  }
}

interface Answer {
  readonly text: string
  readonly link: string | undefined
}

/** Asks for pages, again where that may help: a page is read whole before any of it is used. */
function createAsker(
  { config, secrets, signal }: SourceContext<HttpJsonConfig>,
  http: OutboundHttp,
): (url: URL) => Promise<Answer> {
  const { auth } = config
  const tokens =
    auth.kind === 'oauth_client_credentials'
      ? openTokenSource(auth, requireSecret(secrets, 'client_secret'), http, signal)
      : undefined
  const credentials = async (): Promise<Readonly<Record<string, string>>> => {
    if (auth.kind !== 'oauth_client_credentials') return credentialHeaders(auth, secrets)
    return tokens === undefined ? {} : { authorization: `Bearer ${await tokens.token()}` }
  }
  const askOnce = async (url: URL): Promise<Answer> => {
    const headers = { accept: 'application/json', ...(await credentials()) }
    const answer = await askOnceReady(http, { url: url.href, headers, signal })
    return { text: await readText(answer.body), link: answer.headers['link'] }
  }
  return async (url) => {
    for (let tries = 1; ; tries++) {
      try {
        return await askOnce(url)
      } catch (error) {
        const isTokenStale = tokens !== undefined && error instanceof SourceFailure && error.code === 'not_authorized'
        if (isTokenStale) tokens.forget()
        const mayHelp = isTokenStale ? tries === 1 : error instanceof SourceFailure && error.retryable
        if (!mayHelp || tries === maxTries) throw error
        await wait(firstDelayMs * 2 ** (tries - 1), undefined, { signal })
      }
    }
  }
}

async function readText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of body) {
    length += part.length
    if (length > maxPageBytes) {
      throw new SourceFailure('page_too_large', `a page has more than ${maxPageBytes} bytes: ask for smaller ones`)
    }
    parts.push(part)
  }
  return new TextDecoder().decode(Buffer.concat(parts))
}

function endless(message: string): SourceFailure {
  return new SourceFailure('paging_endless', message)
}
