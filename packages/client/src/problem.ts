import type { ProblemCode, ProblemDocument } from '@postern/contracts'

/**
 * The API has refused: `problem` is its problem document (RFC 9457). An answer that is none, as of a proxy in between,
 * has the code `unknown`. Holds neither the key nor what was sent.
 */
export class PosternProblem extends Error {
  override readonly name = 'PosternProblem'
  readonly problem: Readonly<ProblemDocument>
  /** Seconds to wait before another try, where the answer says so. */
  readonly retryAfterSeconds: number | undefined

  constructor(problem: Readonly<ProblemDocument>, retryAfterSeconds?: number) {
    super(`${problem.status} ${problem.code}: ${problem.detail ?? problem.title}`)
    this.problem = problem
    this.retryAfterSeconds = retryAfterSeconds
  }

  /** HTTP status. */
  get status(): number {
    return this.problem.status
  }

  /** The problem type as a word, to decide by. */
  get code(): string {
    return this.problem.code
  }

  /** Whether the problem is of one of these types, as `not_found`. The compiler knows them all. */
  is(...codes: readonly ProblemCode[]): boolean {
    return codes.some((code) => code === this.code)
  }

  /** Id of the request, as X-Request-Id: what to name when you ask for help. */
  get requestId(): string {
    return this.problem.instance
  }
}

/** Reads a refusal. */
export async function readProblem(answer: Response): Promise<PosternProblem> {
  const retryAfterSeconds = secondsOf(answer.headers.get('retry-after'))
  const text = await answer.text()
  const isDocument = answer.headers.get('content-type')?.startsWith('application/problem+json') === true
  const document = isDocument ? parse(text) : undefined
  return new PosternProblem(document ?? unknownProblem(answer), retryAfterSeconds)
}

/** Of Retry-After: seconds, or, as proxies may say it, a time (RFC 9110 §10.2.3). */
function secondsOf(retryAfter: string | null): number | undefined {
  if (retryAfter === null) return undefined
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter)
  const until = Date.parse(retryAfter)
  return Number.isNaN(until) ? undefined : Math.max(0, Math.ceil((until - Date.now()) / 1000))
}

function unknownProblem(answer: Response): ProblemDocument {
  return {
    type: 'about:blank',
    title: `The answer ${answer.status} is not one of Postern`,
    status: answer.status,
    code: 'unknown',
    instance: answer.headers.get('x-request-id') ?? '',
  }
}

function parse(text: string): ProblemDocument | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isProblem(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isProblem(value: unknown): value is ProblemDocument {
  if (typeof value !== 'object' || value === null) return false
  const texts = ['type', 'title', 'code', 'instance'].map((name) => typeof Reflect.get(value, name))
  return typeof Reflect.get(value, 'status') === 'number' && texts.every((type) => type === 'string')
}
