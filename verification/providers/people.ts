import { randomBytes } from 'node:crypto'
import { type PageAnswer, type TestBrowser, type TestStack, createTestBrowser } from '@postern/local-stack/testing'
import { z } from 'zod'
import type { Report } from './report.ts'

export interface Person {
  readonly login: string
  readonly email: string
  readonly tenant: string
  readonly role: 'viewer' | 'auditor' | 'admin'
}

export const tenants = ['harbourline', 'korvex'] as const

export const people: readonly Person[] = tenants.flatMap((tenant) =>
  (['admin', 'auditor', 'viewer'] as const).map((role) => ({
    login: `${tenant}-${role}`,
    email: `${role}@${tenant}.example`,
    tenant,
    role,
  })),
)

export function personOf(login: string): Person {
  const person = people.find((each) => each.login === login)
  if (person === undefined) throw new Error(`there is no ${login}`)
  return person
}

export const password: string = randomBytes(12).toString('hex')

export type FillIn = (page: PageAnswer, browser: TestBrowser, person: Person) => Promise<PageAnswer>

const sessionSchema = z.object({
  person: z.object({ name: z.string() }),
  tenant: z.object({ id: z.string() }),
  roles: z.array(z.string()),
  csrf_token: z.string(),
  expires_at: z.iso.datetime(),
})

export async function signIn(stack: TestStack, person: Person, fillIn: FillIn): Promise<TestBrowser> {
  const browser = createTestBrowser()
  const page = await browser.visit(`${stack.consoleUrl}/auth/login`)
  const end = await fillIn(page, browser, person)
  const text = end.text.replaceAll(/<style.*?<\/style>|<[^>]*>|\s+/gs, ' ').slice(0, 300)
  if (!end.url.startsWith(stack.consoleUrl) || end.status !== 200) {
    throw new Error(`${person.login} is not signed in: ${end.status} ${end.url.split('?')[0]} ${text}`)
  }
  return browser
}

export async function findSession(
  stack: TestStack,
  browser: TestBrowser,
): Promise<z.infer<typeof sessionSchema> | undefined> {
  const { status, text } = await browser.send(`${stack.consoleUrl}/auth/session`)
  return status === 200 ? sessionSchema.parse(JSON.parse(text)) : undefined
}

export async function askApi(stack: TestStack, browser: TestBrowser): Promise<number> {
  const headers = { accept: 'application/json' }
  return (await browser.send(`${stack.consoleUrl}/api/v1/whoami`, { headers })).status
}

export async function checkEverybody(
  stack: TestStack,
  ids: Readonly<Record<string, string>>,
  fillIn: FillIn,
  report: Report,
): Promise<void> {
  for (const person of people) {
    const browser = await signIn(stack, person, fillIn)
    const session = await findSession(stack, browser)
    const isRight = session?.tenant.id === ids[person.tenant] && session?.roles.join() === person.role
    report.check(
      `signs in the ${person.role} of ${person.tenant}`,
      isRight && (await askApi(stack, browser)) === 200,
      `${session?.person.name ?? 'nobody'}: ${session?.roles.join() ?? 'no session'}`,
    )
  }
}

/** `asksForPassword` recognizes the provider's page. */
export async function checkSignOut(
  stack: TestStack,
  fillIn: FillIn,
  report: Report,
  asksForPassword: (page: PageAnswer) => boolean,
): Promise<void> {
  const browser = await signIn(stack, personOf('harbourline-viewer'), fillIn)
  const end = await signOut(stack, browser)
  report.check(
    'sign-out at the provider leads back to the console without a question',
    end.url === `${stack.consoleUrl}/` && end.status === 200,
    end.url.split('?')[0] ?? '',
  )
  report.check('the session has ended', (await findSession(stack, browser)) === undefined)
  const next = await browser.visit(`${stack.consoleUrl}/auth/login`)
  report.check('the next sign-in needs the password', asksForPassword(next))
}

async function signOut(stack: TestStack, browser: TestBrowser): Promise<PageAnswer> {
  const session = await findSession(stack, browser)
  const answer = await browser.send(`${stack.consoleUrl}/auth/logout`, {
    method: 'POST',
    headers: {
      origin: stack.consoleUrl,
      'sec-fetch-site': 'same-origin',
      'x-csrf-token': session?.csrf_token ?? '',
    },
  })
  const { redirect } = z.object({ redirect: z.string() }).parse(JSON.parse(answer.text))
  return await browser.visit(redirect)
}
