import { join } from 'node:path'
import { findFreePort, type TestBrowser, type TestStack } from '@postern/local-stack/testing'
import { request } from 'undici'
import { z } from 'zod'
import {
  type FillIn,
  askApi,
  checkEverybody,
  checkSignOut,
  findSession,
  password,
  people,
  personOf,
  signIn,
  tenants,
} from './people.ts'
import { launch, run, waitFor } from './programs.ts'
import type { Part } from './run.ts'
import { type Installation, clientId, startInstallation, writeMapping } from './stack.ts'

const version = '26.7.3'
const realm = 'bank'
const secret = 'a-secret-of-the-console'
const downloadMs = 600_000
/** The first start builds the server: a minute on an idle machine. */
const startMs = 600_000
/** A session must end within this time after the provider ended it. */
const logoutMs = 2000
const rotationMs = 5000

interface Keycloak {
  readonly url: string
  call(method: string, path: string, body?: unknown): Promise<Answer>
}

interface Answer {
  readonly status: number
  readonly body: unknown
  /** The last part of `Location`. */
  readonly id: string
}

export async function checkKeycloak(part: Part): Promise<string | undefined> {
  const { report } = part
  const keycloak = await openKeycloak(part)
  if (typeof keycloak === 'string') return keycloak
  const issuer = `${keycloak.url}/realms/${realm}`
  const installation = await startInstallation(await writeMapping(part.folder, secret, mappingOf(issuer)))
  part.atEnd(installation.stop)
  const { stack, ids } = installation
  const userIds = await setUp(keycloak, installation)
  part.atEnd(async () => void (await keycloak.call('DELETE', `/admin/realms/${realm}`)))

  await checkEverybody(stack, ids, fillIn, report)
  await checkRenewal(keycloak, stack, part)
  await checkSignOut(stack, fillIn, report, ({ text }) => text.includes('kc-form-login'))
  await checkBackChannel(keycloak, stack, userIds, part)
  await checkRotation(keycloak, stack, userIds, part)
  return undefined
}

function mappingOf(issuer: string): object {
  return {
    issuer,
    scope: 'openid profile email organization',
    tenant: { from: ['/organization'] },
    roles: { from: ['/resource_access/postern-console/roles'] },
  }
}

/** One page asks for the name, the next one for the password. */
const fillIn: FillIn = async (first, browser, person) => {
  let page = first
  for (let pages = 0; pages < 2; pages += 1) {
    const [, action] = /<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"/.exec(page.text) ?? []
    if (action === undefined) return page
    page = await browser.visit(action.replaceAll('&amp;', '&'), {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ username: person.login, password, credentialId: '' }).toString(),
    })
  }
  return page
}

/** The steps of docs/guides/sign-in-keycloak.md. Returns the ids of users by login. */
async function setUp(keycloak: Keycloak, { stack }: Installation): Promise<ReadonlyMap<string, string>> {
  const create = async (path: string, body: unknown): Promise<string> => {
    const { status, id, body: answer } = await keycloak.call('POST', path, body)
    if (status !== 201 && status !== 204) throw new Error(`Keycloak refused ${path}: ${JSON.stringify(answer)}`)
    return id
  }
  await create('/admin/realms', {
    realm,
    enabled: true,
    organizationsEnabled: true,
    accessTokenLifespan: accessTokenSeconds,
  })
  const base = `/admin/realms/${realm}`
  const client = await create(`${base}/clients`, {
    clientId,
    secret,
    publicClient: false,
    standardFlowEnabled: true,
    directAccessGrantsEnabled: false,
    redirectUris: [`${stack.consoleUrl}/auth/callback`],
    frontchannelLogout: false,
    attributes: {
      'pkce.code.challenge.method': 'S256',
      'post.logout.redirect.uris': `${stack.consoleUrl}/`,
      'backchannel.logout.url': `${stack.consoleUrl}/auth/backchannel-logout`,
      'backchannel.logout.session.required': 'true',
    },
  })
  await create(`${base}/clients/${client}/protocol-mappers/models`, {
    name: 'audience of Postern',
    protocol: 'openid-connect',
    protocolMapper: 'oidc-audience-mapper',
    config: { 'included.custom.audience': 'postern', 'access.token.claim': 'true', 'id.token.claim': 'false' },
  })
  const roles = new Map<string, unknown>()
  for (const role of ['viewer', 'auditor', 'admin']) {
    const name = `postern-${role}`
    await create(`${base}/clients/${client}/roles`, { name })
    roles.set(role, (await keycloak.call('GET', `${base}/clients/${client}/roles/${name}`)).body)
  }
  const organizations = new Map<string, string>()
  for (const tenant of tenants) {
    const domains = [{ name: `${tenant}.example`, verified: true }]
    organizations.set(
      tenant,
      await create(`${base}/organizations`, { name: tenant, alias: tenant, enabled: true, domains }),
    )
  }
  const userIds = new Map<string, string>()
  for (const { login, email, tenant, role } of people) {
    const user = await create(`${base}/users`, {
      username: login,
      email,
      firstName: role,
      lastName: tenant,
      enabled: true,
      emailVerified: true,
      credentials: [{ type: 'password', value: password, temporary: false }],
    })
    await create(`${base}/organizations/${organizations.get(tenant)}/members`, user)
    await create(`${base}/users/${user}/role-mappings/clients/${client}`, [roles.get(role)])
    userIds.set(login, user)
  }
  return userIds
}

const accessTokenSeconds = 5

/** Without `offline_access` Keycloak gives refresh tokens, so a session outlives its access tokens. */
async function checkRenewal(keycloak: Keycloak, stack: TestStack, { report }: Part): Promise<void> {
  const browser = await signIn(stack, personOf('harbourline-auditor'), fillIn)
  const session = await findSession(stack, browser)
  const ends = Date.parse(session?.expires_at ?? '') - Date.now()
  report.check('gives a refresh token without offline_access', ends > 3_600_000, `${Math.round(ends / 60_000)} minutes`)
  const later = await waitFor(async () => (await askApi(stack, browser)) !== 200, accessTokenSeconds * 2000, 1000)
  report.check('a session outlives its access token', later === undefined)
  await keycloak.call('PUT', `/admin/realms/${realm}`, { accessTokenLifespan: 300 })
}

/** The provider ends one sign-in, then all of a person. */
async function checkBackChannel(
  keycloak: Keycloak,
  stack: TestStack,
  userIds: ReadonlyMap<string, string>,
  { report }: Part,
): Promise<void> {
  const person = personOf('korvex-admin')
  const user = userIds.get(person.login) ?? ''
  const [one, other] = [await signIn(stack, person, fillIn), await signIn(stack, person, fillIn)]
  const neighbour = await signIn(stack, personOf('korvex-viewer'), fillIn)
  const sessions = z
    .array(z.object({ id: z.string(), start: z.number() }))
    .parse((await keycloak.call('GET', `/admin/realms/${realm}/users/${user}/sessions`)).body)
  const isOver = async (browser: TestBrowser): Promise<boolean> => (await findSession(stack, browser)) === undefined
  const [latest] = sessions.toSorted((a, b) => b.start - a.start)
  await keycloak.call('DELETE', `/admin/realms/${realm}/sessions/${latest?.id}`)
  const took = await waitFor(async () => (await isOver(one)) || (await isOver(other)), logoutMs)
  const isOne = (await isOver(one)) !== (await isOver(other))
  report.check('ends one sign-in within 2 s when an administrator ends it', took !== undefined && isOne, inMs(took))
  const again = await signIn(stack, person, fillIn)
  await keycloak.call('POST', `/admin/realms/${realm}/users/${user}/logout`)
  const all = await waitFor(async () => (await isOver(one)) && (await isOver(other)) && (await isOver(again)), logoutMs)
  report.check('ends every sign-in of a person within 2 s', all !== undefined, inMs(all))
  report.check('ends nobody else’s session', (await askApi(stack, neighbour)) === 200)
}

async function checkRotation(
  keycloak: Keycloak,
  stack: TestStack,
  userIds: ReadonlyMap<string, string>,
  { report }: Part,
): Promise<void> {
  const before = await signIn(stack, personOf('harbourline-admin'), fillIn)
  const { body } = await keycloak.call('GET', `/admin/realms/${realm}`)
  const { id } = z.object({ id: z.string() }).parse(body)
  const created = await keycloak.call('POST', `/admin/realms/${realm}/components`, {
    name: 'a newer key',
    providerId: 'rsa-generated',
    providerType: 'org.keycloak.keys.KeyProvider',
    parentId: id,
    config: { priority: ['1000'], enabled: ['true'], active: ['true'], algorithm: ['RS256'] },
  })
  report.check('accepts a new signing key', created.status === 201)
  report.check('a session goes on after the rotation', (await askApi(stack, before)) === 200)
  const began = performance.now()
  const after: { browser: TestBrowser | undefined } = { browser: undefined }
  const took = await waitFor(async () => {
    after.browser = await signIn(stack, personOf('korvex-auditor'), fillIn)
    return true
  }, rotationMs)
  report.check('signs in with the new key', took !== undefined, `after ${Math.round(performance.now() - began)} ms`)
  if (after.browser === undefined) return
  await keycloak.call('POST', `/admin/realms/${realm}/users/${userIds.get('korvex-auditor')}/logout`)
  const { browser } = after
  const ended = await waitFor(async () => (await findSession(stack, browser)) === undefined, logoutMs)
  report.check('a logout that the new key signs ends the session within 2 s', ended !== undefined, inMs(ended))
}

function inMs(took: number | undefined): string {
  return took === undefined ? 'not in time' : `${took} ms`
}

async function openKeycloak(part: Part): Promise<Keycloak | string> {
  const running = process.env['POSTERN_TEST_KEYCLOAK']
  if (running !== undefined) return adminOf(running)
  for (const program of ['java', 'mvn', 'unzip']) {
    if ((await run('which', [program], { timeoutMs: 10_000 }).catch(() => undefined)) === undefined) {
      return `${program} is not installed`
    }
  }
  const { folder } = part
  const artifact = `org.keycloak:keycloak-quarkus-dist:${version}:zip`
  try {
    await run('mvn', ['-q', '-B', 'dependency:get', `-Dartifact=${artifact}`, '-Dtransitive=false'], {
      timeoutMs: downloadMs,
    })
    await run('mvn', ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`], {
      timeoutMs: downloadMs,
    })
  } catch (error) {
    return `Maven has no ${artifact}: ${error instanceof Error ? error.message : 'unknown'}`
  }
  await run('unzip', ['-q', join(folder, `keycloak-quarkus-dist-${version}.zip`), '-d', folder], { timeoutMs: 60_000 })
  const [port, managementPort] = [await findFreePort(), await findFreePort()]
  const url = `http://127.0.0.1:${port}`
  const server = launch(
    join(folder, `keycloak-${version}`, 'bin', 'kc.sh'),
    [
      'start-dev',
      '--http-host=127.0.0.1',
      `--http-port=${port}`,
      `--http-management-port=${managementPort}`,
      '--cache=local',
    ],
    {
      cwd: folder,
      logFile: join(folder, 'keycloak.log'),
      env: {
        JAVA_OPTS_KC_HEAP: '-Xms64m -Xmx512m',
        KC_BOOTSTRAP_ADMIN_USERNAME: 'admin',
        KC_BOOTSTRAP_ADMIN_PASSWORD: 'admin',
      },
    },
  )
  part.atEnd(server.stop)
  const took = await waitFor(
    async () => {
      if (server.hasEnded()) return true
      const answer = await request(`${url}/realms/master`)
      await answer.body.dump()
      return answer.statusCode === 200
    },
    startMs,
    500,
  )
  if (took === undefined || server.hasEnded()) throw new Error('Keycloak did not start')
  return adminOf(url)
}

function adminOf(url: string): Keycloak {
  const tokenSchema = z.object({ access_token: z.string() })
  const getToken = async (): Promise<string> => {
    const { body } = await request(`${url}/realms/master/protocol/openid-connect/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'password',
        client_id: 'admin-cli',
        username: 'admin',
        password: 'admin',
      }).toString(),
    })
    return tokenSchema.parse(await body.json()).access_token
  }
  return {
    url,
    call: async (method, path, body) => {
      const answer = await request(url + path, {
        method,
        headers: { authorization: `Bearer ${await getToken()}`, 'content-type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
      })
      const text = await answer.body.text()
      const { location } = answer.headers
      return {
        status: answer.statusCode,
        body: /^[[{]/.test(text) ? JSON.parse(text) : text,
        id: typeof location === 'string' ? (location.split('/').at(-1) ?? '') : '',
      }
    },
  }
}
