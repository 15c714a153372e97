import { createHash } from 'node:crypto'
import { parseKey } from '@postern/api-key'
import { githubMatchesSchema, githubIdHeader, githubSignatureHeader, reportGithubLeaks } from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, inputErrors, parseJsonBody, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type GithubKeys, isSignedBy } from './github-keys.ts'

/** Registers the endpoint of GitHub's secret scanning partner program. Without `githubKeys`, it answers 404. */
export function githubRoutes(app: App, { leaks, githubKeys }: Pick<Deps, 'leaks' | 'githubKeys'>): void {
  contractRoute(app, reportGithubLeaks, async ({ raw, context, answer }) => {
    const body = await readBody(raw.body)
    if (githubKeys === undefined) {
      throw problem('not_found', {
        detail: 'GitHub reports are not set up. The operator must set POSTERN_GITHUB_SCANNING_KEYS_FILE.',
      })
    }
    assertSigned(githubKeys, raw, body)
    const parsed = githubMatchesSchema.safeParse(parseJsonBody(body))
    if (!parsed.success) {
      throw problem('invalid_content', { errors: inputErrors(parsed.error, 'body') })
    }
    const matches = parsed.data
    const { known } = await leaks.report({
      found: matches.map(({ token, url }) => ({ value: token, url })),
      reporter: { id: 'github', label: 'GitHub secret scanning', address: context.label },
      digest: createHash('sha256').update(body).digest(),
    })
    answer.header('cache-control', 'no-store')
    return matches.map(({ token, type }) => ({
      token_hash: createHash('sha256').update(token).digest('hex'),
      token_type: type,
      label: known.has(parseKey(token)?.hash ?? '') ? 'true_positive' : 'false_positive',
    }))
  })
}

async function readBody(body: unknown): Promise<Buffer> {
  if (!isStream(body)) return Buffer.alloc(0)
  const parts: Buffer[] = []
  let length = 0
  for await (const part of body) {
    if (!Buffer.isBuffer(part)) throw new TypeError('a request body must be a stream of bytes')
    length += part.length
    if (length > reportGithubLeaks.maxBodyBytes) {
      throw problem('content_too_large', {
        detail: `The body may have at most ${reportGithubLeaks.maxBodyBytes} bytes.`,
      })
    }
    parts.push(part)
  }
  return Buffer.concat(parts)
}

function isStream(body: unknown): body is AsyncIterable<unknown> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body
}

function assertSigned(keys: GithubKeys, { headers }: RequestInfo['raw'], body: Buffer): void {
  const [id, signature] = [headers[githubIdHeader], headers[githubSignatureHeader]]
  const key = typeof id === 'string' ? keys.get(id) : undefined
  if (key === undefined)
    throw unsignedProblem(githubIdHeader, 'must name a public key of GitHub that the operator has set')
  if (typeof signature !== 'string' || !isSignedBy(key, body, signature)) {
    throw unsignedProblem(githubSignatureHeader, 'must be the signature of GitHub over this body')
  }
}

/** Not 401, which is about the credentials of Postern. */
function unsignedProblem(parameter: string, detail: string): Error {
  return problem('bad_request', {
    detail: 'The report is not signed by GitHub.',
    errors: [{ parameter, code: 'invalid', detail }],
  })
}
