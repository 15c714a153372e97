import type { FastifyReply } from 'fastify'
import { JsonText, JsonTexts } from './json-text.ts'

/** Wraps a page with the content of its headers. `next` is relative, so that it works behind a path prefix. */
export function withEnvelope(page: unknown, reply: FastifyReply): JsonText {
  const header = (name: string): string | undefined => reply.getHeader(name)?.toString()
  const search = /<[^<>?]*(\?[^<>]*)>/.exec(header('link') ?? '')?.[1]
  const total = header('x-total-count')
  const since = header('postern-next-since')
  const rest = {
    next: search ?? null,
    total: total === undefined ? null : Number(total),
    ...(since === undefined
      ? { next_cursor: search === undefined ? null : new URLSearchParams(search).get('cursor') }
      : { next_since: since }),
    next_updated_since: header('postern-next-updated-since'),
  }
  const items = page instanceof JsonTexts ? page.text : JSON.stringify(page)
  return new JsonText(`{"items":${items},${JSON.stringify(rest).slice(1)}`)
}
