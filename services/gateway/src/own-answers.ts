import { mediaTypesOf } from '@postern/contracts'
import { chooseCoding, matchesEtag, negotiate } from '@postern/service-kit'
import type { Match } from '@postern/service-kit/access'
import type { CallerHeaders } from './caller-headers.ts'
import { type Document, codings, createDocuments } from './documents.ts'
import { type Exchange, closeConnection, send, sendNotModified } from './exchange.ts'
import { problemPage } from './problem-pages.ts'
import { type Refusal, refusal } from './refusal.ts'
import type { Usage } from './usage.ts'
import { whoamiOf } from './whoami.ts'

export interface OwnAnswersParts {
  readonly apiUrl: string
  readonly callerHeaders: CallerHeaders
  readonly usage: Pick<Usage, 'signIn'>
  readonly isDraining: () => boolean
  /** Status 0: the client disconnected. */
  readonly onDone: (exchange: Exchange, status: number) => void
  /** A document could not be created. */
  readonly onCrash: (exchange: Exchange, error: unknown) => void
}

const maxNamedParameters = 50

const pageHeaders = [
  'cache-control',
  'public, max-age=300',
  'content-security-policy',
  "default-src 'none'; frame-ancestors 'none'",
] as const

/** Answers the routes of the gateway itself. */
export function createOwnAnswers(
  parts: OwnAnswersParts,
): (exchange: Exchange, match: Extract<Match, { kind: 'route' }>) => Refusal | undefined {
  const { apiUrl, callerHeaders, usage, isDraining, onDone, onCrash } = parts
  const documents = createDocuments(apiUrl)
  const documentOf: Readonly<Record<string, (() => Promise<Document>) | undefined>> = {
    'gateway.openapi': async () => await documents.openApi(),
    'gateway.agent-openapi': async () => await documents.agentOpenApi(),
    'gateway.swagger': async () => await documents.swagger(),
    'gateway.reference': async () => await documents.reference(),
    'gateway.reference-script': async () => await documents.referenceScript(),
    'gateway.guides': async () => await documents.guides(),
  }

  function answerHeaders(exchange: Exchange): string[] {
    const headers = callerHeaders(exchange)
    if (isDraining()) headers.push(...closeConnection)
    return headers
  }

  function answerDocument(exchange: Exchange, document: Promise<Document>, headers: readonly string[]): void {
    document
      .then(({ mediaType, headers: own, coded, ...plain }) => {
        const coding = chooseCoding(exchange.request.headers['accept-encoding'], codings)
        const { content, etag } = coding === undefined ? plain : coded[coding]
        const shared = ['etag', etag, 'cache-control', 'public, max-age=60', 'vary', 'accept-encoding']
        if (isKnown(exchange, etag)) {
          sendNotModified(exchange, [...shared, ...headers])
        } else {
          const encoding = coding === undefined ? [] : ['content-encoding', coding]
          send(exchange, 200, mediaType, content, [...shared, ...encoding, ...own, ...headers])
        }
        onDone(exchange, exchange.response.headersSent ? exchange.response.statusCode : 0)
      })
      .catch((error: unknown) => onCrash(exchange, error))
  }

  return (exchange, { route, params }) => {
    const { principal } = exchange
    const headers = answerHeaders(exchange)
    // Silently ignored parameters would hide mistakes.
    if (exchange.target.includes('?') && route.path.startsWith('/api/')) {
      const names = [...new URLSearchParams(exchange.target.slice(exchange.target.indexOf('?') + 1)).keys()]
      const detail = 'is not a parameter of this operation'
      return refusal('bad_request', {
        detail: 'This operation takes no parameters in the query.',
        errors: (names.length === 0 ? [''] : names.slice(0, maxNamedParameters)).map((parameter) => {
          return { parameter, code: 'unknown', detail }
        }),
      })
    }
    const offered = mediaTypesOf(route)
    if (negotiate(exchange.request.headers.accept, offered) === undefined) {
      return refusal('not_acceptable', { detail: `This resource is available as ${offered.join(', ')}.` })
    }
    const document = documentOf[route.id]
    if (document !== undefined) {
      answerDocument(exchange, document(), headers)
      return undefined
    }
    switch (route.id) {
      case 'gateway.whoami':
        if (principal === undefined) throw new Error('whoami is for a known caller')
        usage.signIn(exchange)
        send(
          exchange,
          200,
          'application/json; charset=utf-8',
          Buffer.from(JSON.stringify(whoamiOf(principal))),
          headers,
        )
        break
      case 'gateway.guide': {
        const guide = documents.guide(params['guide'] ?? '')
        if (guide === undefined) {
          return refusal('not_found', { detail: 'There is no such guide. `/docs/guides` lists all guides.' })
        }
        answerDocument(exchange, guide, headers)
        return undefined
      }
      case 'gateway.problem': {
        const page = problemPage(params['slug'] ?? '')
        if (page === undefined) return refusal('not_found', { detail: 'There is no such problem type.' })
        send(exchange, 200, 'text/html; charset=utf-8', Buffer.from(page), [...pageHeaders, ...headers])
        break
      }
      default:
        throw new Error(`the gateway has no answer for ${route.id}`)
    }
    onDone(exchange, exchange.response.statusCode)
    return undefined
  }
}

function isKnown({ request }: Exchange, etag: string): boolean {
  const given = request.headers['if-none-match']
  return given !== undefined && matchesEtag(given, etag)
}
