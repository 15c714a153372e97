/** `a` has the role's name. PostgreSQL stores one password per login, so a rotation alternates between two. */
export type Login = 'a' | 'b'

export interface LoginPassword {
  readonly login: Login
  readonly password: string
}

const form = /^([ab]):([A-Za-z0-9_-]{16,})(?:,([ab]):([A-Za-z0-9_-]{16,}))?$/

/** One password, or `a:PASSWORD,b:PASSWORD` during a rotation. Services use the first. */
export function parseLoginPasswords(text: string): readonly [LoginPassword, ...LoginPassword[]] {
  const [, login, password, otherLogin, otherPassword] = form.exec(text) ?? []
  if (login === undefined || password === undefined || login === otherLogin) return [{ login: 'a', password: text }]
  const first = { login: login === 'a' ? 'a' : 'b', password } as const
  if (otherPassword === undefined) return [first]
  return [first, { login: otherLogin === 'a' ? 'a' : 'b', password: otherPassword }]
}

export function loginsOf(text: string): Readonly<Record<Login, string | undefined>> {
  const passwords = parseLoginPasswords(text)
  const of = (login: Login): string | undefined => passwords.find((each) => each.login === login)?.password
  return { a: of('a'), b: of('b') }
}

/** The one in use first. */
export function formatLoginPasswords(passwords: readonly LoginPassword[]): string {
  return passwords.map(({ login, password }) => `${login}:${password}`).join(',')
}
