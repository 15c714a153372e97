import { createServer } from 'node:http'
import {
  type TestBrowser,
  type TestRedis,
  type TestSignIn,
  createTestBrowser,
  findFreePort,
  patience,
  randomRing,
  startTestRedis,
  startTestSignIn,
  assertNoKeyInLine,
} from '@postern/local-stack/testing'
import { tenantHeader } from '@postern/contracts'
import { decodeJwt } from 'jose'
import { z } from 'zod'
import { type RunningConsole, startConsole } from '../src/service.ts'

export const tenants = {
  harbourline: '0199aaaa-0000-7000-8000-000000000001',
  korvex: '0199aaaa-0000-7000-8000-000000000002',
} as const

export interface RecordedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** Replaces the gateway: it records requests and accepts every token. End-to-end tests cover the real one. */
export interface RecordingGateway {
  readonly url: string
  readonly requests: RecordedRequest[]
  /** Replaces the answer of `/api/v1/whoami`. */
  whoami: { readonly status: number; readonly body: unknown } | undefined
  /** The directory of this tenant refuses everybody. */
  closedTenant: string | undefined
  /** Answers every other path. Default: an echo. */
  answer: { readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  stop(): Promise<void>
}

export async function startRecordingGateway(): Promise<RecordingGateway> {
  const requests: RecordedRequest[] = []
  const server = createServer((request, response) => {
    void (async () => {
      let body = ''
      for await (const chunk of request) body += String(chunk)
      const { method = '', url = '', headers } = request
      requests.push({ method, url, headers, body })
      if (url === '/api/v1/whoami') {
        const answer =
          gateway.whoami ?? whoamiOf(headers.authorization ?? '', headers[tenantHeader], gateway.closedTenant)
        response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))
        return
      }
      response
        .writeHead(method === 'POST' ? 201 : 200, {
          'content-type': 'application/json',
          link: '</api/v1/things?cursor=x>; rel="next"',
          ...gateway.answer.headers,
          etag: '"7"',
          'set-cookie': 'planted=1',
          'cache-control': 'public, max-age=60',
        })
        .end(gateway.answer.body ?? JSON.stringify({ echo: body }))
    })()
  })
  const port = await findFreePort()
  const listening = Promise.withResolvers<void>()
  server.listen(port, '127.0.0.1', listening.resolve)
  await listening.promise
  const gateway: RecordingGateway = {
    url: `http://127.0.0.1:${port}`,
    requests,
    whoami: undefined,
    closedTenant: undefined,
    answer: {},
    stop: async () => {
      const closed = Promise.withResolvers<void>()
      server.close(() => closed.resolve())
      server.closeAllConnections()
      await closed.promise
    },
  }
  return gateway
}

/** As the real gateway, for a token whose `postern_tenant` is one id or a list. */
function whoamiOf(
  authorization: string,
  named: unknown,
  closed: string | undefined,
): { readonly status: number; readonly body: unknown } {
  const { sub, name, postern_tenant: claim, postern_roles: given } = decodeJwt(authorization.replace('Bearer ', ''))
  const granted = [claim].flat()
  if (named !== undefined && !granted.includes(named)) return { status: 403, body: { code: 'tenant_not_granted' } }
  const tenant = granted.length === 1 ? granted[0] : named
  const roles = z
    .array(z.string())
    .parse(given ?? [])
    .map((role) => role.replace('postern-', ''))
  const isUndecided = tenant === undefined
  const body = {
    kind: 'user',
    id: sub,
    label: name,
    tenant: isUndecided ? null : { id: tenant, name: nameOfTenant(tenant) },
    tenants: granted.flatMap((id) => (id === closed ? [] : [{ id, name: nameOfTenant(id), roles }])),
    granted: [],
    scopes: [],
    roles: isUndecided ? [] : roles,
    masked: null,
    expires_at: null,
  }
  return { status: 200, body }
}

function nameOfTenant(id: unknown): string {
  return id === tenants.korvex ? 'Korvex Energy' : 'Harbourline Bank'
}

export interface ConsoleSystem {
  /** `POSTERN_CONSOLE_URL`, if a test's proxy publishes the console. */
  readonly url: string
  readonly redis: TestRedis
  readonly gateway: RecordingGateway
  readonly provider: TestSignIn
  readonly console: RunningConsole
  readonly env: Readonly<Record<string, string>>
  advance(ms: number): void
  readonly logs: string[]
  signedIn(personId?: string): Promise<TestBrowser>
  stop(): Promise<void>
}

/** Starts a console with a real provider, a real Redis and a recording gateway. */
export async function startConsoleSystem(extra: Readonly<Record<string, string>> = {}): Promise<ConsoleSystem> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const publicUrl = extra['POSTERN_CONSOLE_URL'] ?? url
  const [redis, gateway, provider] = await Promise.all([
    startTestRedis(),
    startRecordingGateway(),
    startTestSignIn({ consoleUrl: publicUrl, tenants }),
  ])
  const env = {
    POSTERN_PORT: String(port),
    POSTERN_CONSOLE_URL: publicUrl,
    POSTERN_GATEWAY_URL: gateway.url,
    POSTERN_REDIS_URL: redis.urls.console,
    POSTERN_CONSOLE_SESSION: randomRing(),
    POSTERN_OIDC_ISSUER: provider.issuer,
    POSTERN_OIDC_CLIENT_ID: provider.clientId,
    POSTERN_OIDC_CLIENT_SECRET: provider.clientSecret,
    ...patience,
    ...extra,
  }
  let offset = 0
  const logs: string[] = []
  const keepLine = (line: string): void => {
    assertNoKeyInLine(line)
    logs.push(line)
  }
  const running = await startConsole(env, { now: () => Date.now() + offset, writeLog: keepLine })
  return {
    url: publicUrl,
    redis,
    gateway,
    provider,
    console: running,
    env,
    logs,
    advance: (ms) => {
      offset += ms
    },
    signedIn: async (personId = 'harbourline-admin') => {
      const browser = createTestBrowser()
      await browser.signIn(publicUrl, personId)
      return browser
    },
    stop: async () => {
      await running.close()
      await provider.stop()
      await gateway.stop()
      await redis.stop()
    },
  }
}

const sessionSchema = z.object({
  person: z.object({ id: z.string(), name: z.string(), email: z.string().nullable() }),
  tenant: z.object({ id: z.string(), name: z.string() }),
  roles: z.array(z.string()),
  can_switch: z.boolean(),
  csrf_token: z.string(),
  expires_at: z.iso.datetime(),
  idle_expires_at: z.iso.datetime(),
})

export async function readSession(browser: TestBrowser, url: string): Promise<z.infer<typeof sessionSchema>> {
  const answer = await browser.send(`${url}/auth/session`)
  if (answer.status !== 200) throw new Error(`no session: ${answer.status} ${answer.text}`)
  return sessionSchema.parse(JSON.parse(answer.text))
}

/** The headers of a change that one of the console's own pages makes. */
export async function ownPage(browser: TestBrowser, url: string): Promise<Record<string, string>> {
  return {
    origin: new URL(url).origin,
    'sec-fetch-site': 'same-origin',
    'content-type': 'application/json',
    'x-csrf-token': (await readSession(browser, url)).csrf_token,
  }
}

export function codeOf(text: string): string {
  return z.object({ code: z.string() }).parse(JSON.parse(text)).code
}
