import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestBrowser, type TestStack, findFreePort } from '@postern/local-stack/testing'
import { request } from 'undici'
import { type FillIn, askApi, checkEverybody, checkSignOut, findSession, people, personOf, signIn } from './people.ts'
import { launch, run, waitFor } from './programs.ts'
import type { Part } from './run.ts'
import { clientId, startInstallation, writeMapping } from './stack.ts'

/** Dex 2.45.1. Its tags are not versions of a Go module. */
const version = 'v0.0.0-20260303133905-11d2eeb52b42'
const secret = 'a-secret-of-the-console'
const password = 'password-of-dex'
const passwordHash = '$2b$10$abcdefghijklmnopqrstuuGlPkWGclPFIUsYXis/Zqq6aPDyM3UBm'
const buildMs = 1_800_000
const startMs = 60_000
const logoutMs = 2000

export async function checkDex(part: Part): Promise<string | undefined> {
  const { folder, report } = part
  const program = await findDex(folder)
  if ('missing' in program) return program.missing
  const { hasSessions } = program
  const port = await findFreePort()
  const issuer = `http://127.0.0.1:${port}/dex`
  const installation = await startInstallation(await writeMapping(folder, secret, mappingOf(issuer)))
  part.atEnd(installation.stop)
  const { stack, ids } = installation
  const config = join(folder, 'dex.json')
  await writeFile(config, JSON.stringify(configFor({ issuer, port, consoleUrl: stack.consoleUrl, hasSessions })))
  const server = launch(program.path, ['serve', config], {
    cwd: program.folder,
    logFile: join(folder, 'dex.log'),
    env: hasSessions ? { DEX_SESSIONS_ENABLED: 'true' } : {},
  })
  part.atEnd(server.stop)
  const took = await waitFor(async () => {
    const answer = await request(`${issuer}/.well-known/openid-configuration`)
    await answer.body.dump()
    return answer.statusCode === 200
  }, startMs)
  if (took === undefined) throw new Error('Dex did not start')

  await checkEverybody(stack, ids, fillIn, report)
  await checkRenewal(stack, part)
  await checkSignOut(stack, fillIn, report, ({ url, text }) => url.startsWith(issuer) && text.includes('password'))
  if (hasSessions) await checkBackChannel(stack, issuer, part)
  else process.stdout.write('dex: SKIPPED back-channel logout: this release of Dex has none\n')
  return undefined
}

function mappingOf(issuer: string): object {
  return {
    issuer,
    read: 'id_token',
    scope: 'openid profile email groups offline_access',
    tenant: { from: ['/groups'], map: { 'harbourline-audit': 'harbourline', 'korvex-audit': 'korvex' } },
    roles: { from: ['/groups'], map: { 'audit-admins': 'admin', 'audit-leads': 'auditor', 'audit-viewers': 'viewer' } },
  }
}

const groupOf = { admin: 'audit-admins', auditor: 'audit-leads', viewer: 'audit-viewers' } as const

/** The steps of docs/guides/sign-in-dex.md, with people in the file in place of a connector. */
function configFor(given: {
  readonly issuer: string
  readonly port: number
  readonly consoleUrl: string
  readonly hasSessions: boolean
}): unknown {
  const { issuer, port, consoleUrl, hasSessions } = given
  return {
    issuer,
    storage: { type: 'memory' },
    web: { http: `127.0.0.1:${port}` },
    oauth2: { skipApprovalScreen: true },
    expiry: { idTokens: '31s', signingKeys: '6h' },
    ...(hasSessions ? { sessions: { absoluteLifetime: '12h', validIfNotUsedFor: '1h' } } : {}),
    staticClients: [
      {
        id: clientId,
        name: 'Postern',
        secret,
        redirectURIs: [`${consoleUrl}/auth/callback`],
        ...(hasSessions
          ? {
              postLogoutRedirectURIs: [`${consoleUrl}/`],
              backchannelLogoutURI: `${consoleUrl}/auth/backchannel-logout`,
              refreshTokenLifetime: 'session',
            }
          : {}),
      },
    ],
    enablePasswordDB: true,
    staticPasswords: people.map(({ login, email, tenant, role }) => ({
      email,
      username: login,
      name: `${role} ${tenant}`,
      userID: login,
      hash: passwordHash,
      groups: [`${tenant}-audit`, groupOf[role]],
    })),
  }
}

const fillIn: FillIn = async (page, browser, person) => {
  const [, action] = /<form method="post" action="([^"]+)"/.exec(page.text) ?? []
  if (action === undefined || !page.text.includes('name="password"')) return page
  return await browser.visit(new URL(action.replaceAll('&amp;', '&'), page.url).href, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ login: person.email, password }).toString(),
  })
}

async function checkRenewal(stack: TestStack, { report }: Part): Promise<void> {
  const browser = await signIn(stack, personOf('harbourline-auditor'), fillIn)
  const session = await findSession(stack, browser)
  const ends = Date.parse(session?.expires_at ?? '') - Date.now()
  report.check('gives a refresh token for offline_access', ends > 3_600_000, `${Math.round(ends / 60_000)} minutes`)
  const later = await waitFor(async () => (await askApi(stack, browser)) !== 200, 35_000, 1000)
  report.check('a session outlives its ID token', later === undefined)
}

async function checkBackChannel(stack: TestStack, issuer: string, { report }: Part): Promise<void> {
  const browser = await signIn(stack, personOf('korvex-admin'), fillIn)
  const other = await signIn(stack, personOf('korvex-admin'), fillIn)
  const page = await browser.visit(`${issuer}/logout`)
  const [, action = ''] = /<form method="post" action="([^"]+)"/.exec(page.text) ?? []
  const isOver = async (who: TestBrowser): Promise<boolean> => (await findSession(stack, who)) === undefined
  report.check('a session goes on until the person confirms', !(await isOver(browser)))
  await browser.visit(new URL(action.replaceAll('&amp;', '&'), page.url).href, { method: 'POST' })
  const took = await waitFor(async () => await isOver(browser), logoutMs)
  report.check('a sign-out at Dex ends the session within 2 s', took !== undefined, `${took ?? 'not in time'} ms`)
  report.check('ends no other sign-in', (await askApi(stack, other)) === 200)
}

type Dex =
  | { readonly path: string; readonly folder: string; readonly hasSessions: boolean }
  | { readonly missing: string }

/** Builds Dex as a Go module. `POSTERN_TEST_DEX` names a checkout with a built `dex` of July 2026 or later instead. */
async function findDex(folder: string): Promise<Dex> {
  const checkout = process.env['POSTERN_TEST_DEX']
  if (checkout !== undefined) return { path: join(checkout, 'dex'), folder: checkout, hasSessions: true }
  const module = join(folder, 'dex')
  const options = { timeoutMs: buildMs, cwd: folder, env: { GOFLAGS: '-mod=mod', CGO_ENABLED: '0' } }
  try {
    await writeFile(
      join(folder, 'go.mod'),
      `module postern.example/providers\n\ngo 1.25.0\n\nrequire github.com/dexidp/dex ${version}\n`,
    )
    const built = await run('go', ['build', '-o', module, 'github.com/dexidp/dex/cmd/dex'], options)
    if (built === undefined) return { missing: 'go is not installed' }
    const source = await run('go', ['list', '-m', '-f', '{{.Dir}}', 'github.com/dexidp/dex'], options)
    // Dex reads its pages from the folder in which it runs.
    return { path: module, folder: source?.trim() ?? folder, hasSessions: false }
  } catch (error) {
    return { missing: `Dex ${version} cannot be built: ${error instanceof Error ? error.message : 'unknown'}` }
  }
}
