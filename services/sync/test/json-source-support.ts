import { afterAll, beforeAll, beforeEach } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { type Answers, type SourceServer, startSourceServer } from './source-server.ts'
import { failureOf, readSource } from './source-support.ts'

/** A source of JSON at `/people`. Each test file calls it. */
export function useJsonSource() {
  const answers: Answers = {}
  let server: SourceServer
  const outbound = openOutbound({ networks: ['127.0.0.1'] })

  beforeAll(async () => {
    server = await startSourceServer(answers)
  })
  afterAll(async () => await server.close())
  beforeEach(() => {
    server.asked.length = 0
    for (const path of Object.keys(answers)) delete answers[path]
  })

  /** The ids of the rows, and the codes of the errors. */
  async function ids(config: object, secrets: Record<string, string> = {}): Promise<unknown[]> {
    const items = await readSource('http_json', {
      config: { url: `${server.url}/people`, ...config },
      secrets,
      outbound,
    })
    return items.map((item) => (item.kind === 'row' ? item.values['id'] : item.code))
  }

  async function refusal(
    config: object = {},
    limits: object = {},
    secrets: Record<string, string> = {},
  ): Promise<string> {
    const options = { config: { url: `${server.url}/people`, ...config }, limits, secrets, outbound }
    return (await failureOf('http_json', options)).code
  }

  /** Gives every request this response. */
  function always(body: unknown, headers: Record<string, string> = {}): void {
    answers['/people'] = (_, response) =>
      response.writeHead(200, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
  }

  return { answers, outbound, server: () => server, ids, refusal, always }
}
