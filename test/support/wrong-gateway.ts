import { type ProxiedAnswer, type ProxiedRequest, type TestProxy, startTestProxy } from '@postern/local-stack/testing'

/** Faults of a gateway that a checker must find. */
export type Wrong =
  /** It accepts a key forever for what it has once accepted: it ignores revocations, suspensions and expiry. */
  | 'remembers'
  /** It gives every caller the last answer to the same request. */
  | 'mixes up'
  /** It accepts writes and does nothing. */
  | 'loses'
  /** It carries out a request and then refuses it. */
  | 'lies'
  /** It answers 500. */
  | 'crashes'

/** Starts a proxy to a correct gateway that has this fault, in each answer or in every fifth. */
export async function startWrongGateway(origin: string, wrong: Wrong): Promise<TestProxy> {
  const remembered = new Map<string, ProxiedAnswer>()
  let count = 0
  return await startTestProxy(origin, async (request, forward) => {
    const isWrite = request.method === 'POST'
    const isTurn = (count += 1) % 5 === 0
    if (wrong === 'crashes' && isTurn) return problem(500, 'internal_error')
    if (wrong === 'loses' && isWrite) return { status: 201, headers: json, body: request.body }
    const answer = await forward()
    if (wrong === 'lies' && isWrite) return problem(403, 'insufficient_scope')
    if (wrong !== 'remembers' && wrong !== 'mixes up') return answer
    const name = nameOf(request, wrong === 'remembers')
    const known = remembered.get(name)
    if (answer.status < 300) remembered.set(name, answer)
    if (wrong === 'remembers') return answer.status < 400 ? answer : (known ?? answer)
    return isTurn ? (known ?? answer) : answer
  })
}

/** Names what is asked, and by whom if `ofCaller`. */
function nameOf({ method, path, headers }: ProxiedRequest, ofCaller: boolean): string {
  return JSON.stringify([method, path.split('?', 1)[0], ofCaller ? headers.authorization : undefined])
}

const json = { 'content-type': 'application/json' }

function problem(status: number, code: string): ProxiedAnswer {
  const body = Buffer.from(JSON.stringify({ status, code }))
  return { status, headers: { 'content-type': 'application/problem+json' }, body }
}
