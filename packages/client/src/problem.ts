import type { ProblemCode, ProblemDocument } from '@postern/contracts'

/**
 * A rejected request, with its problem document (RFC 9457). A response that is not from Postern has the code `unknown`.
 * Contains neither the key nor the request.
 */
export class PosternProblem extends Error {
  override readonly name = 'PosternProblem'
  readonly problem: Readonly<ProblemDocument>
  /** Seconds from Retry-After. */
  readonly retryAfterSeconds: number | undefined

  constructor(problem: Readonly<ProblemDocument>, retryAfterSeconds?: number) {
    super(`${problem.status} ${problem.code}: ${problem.detail ?? problem.title}`)
    this.problem = problem
    this.retryAfterSeconds = retryAfterSeconds
  }

  get status(): number {
    return this.problem.status
  }

  /** Use the code to decide what to do. */
  get code(): string {
    return this.problem.code
  }

  /** Whether the problem has one of these codes, such as `not_found`. */
  is(...codes: readonly ProblemCode[]): boolean {
    return codes.some((code) => code === this.code)
  }

  /** X-Request-Id. Quote it when you ask for help. */
  get requestId(): string {
    return this.problem.instance
  }
}

export async function readProblem(answer: Response): Promise<PosternProblem> {
  const retryAfterSeconds = parseRetryAfter(answer.headers.get('retry-after'))
  const text = await answer.text()
  const isDocument = answer.headers.get('content-type')?.startsWith('application/problem+json') === true
  const document = isDocument ? parse(text) : undefined
  return new PosternProblem(document ?? unknownProblem(answer), retryAfterSeconds)
}

/** Seconds or a date (RFC 9110 §10.2.3). */
function parseRetryAfter(retryAfter: string | null): number | undefined {
  if (retryAfter === null) return undefined
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter)
  const until = Date.parse(retryAfter)
  return Number.isNaN(until) ? undefined : Math.max(0, Math.ceil((until - Date.now()) / 1000))
}

function unknownProblem(answer: Response): ProblemDocument {
  return {
    type: 'about:blank',
    title: `The response ${answer.status} is not from Postern`,
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
