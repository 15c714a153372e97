/**
 * The two logins of a role: `a` has the role's name, `b` is the second one. PostgreSQL stores one password per login,
 * so a rotation alternates between two logins.
 */
export type Login = 'a' | 'b'

export interface LoginPassword {
  readonly login: Login
  readonly password: string
}

const form = /^([ab]):([A-Za-z0-9_-]{16,})(?:,([ab]):([A-Za-z0-9_-]{16,}))?$/

/**
 * Parses the passwords of a role: one password for login `a`, or `a:PASSWORD,b:PASSWORD` during a rotation. Services
 * use the first; the other is accepted too.
 */
export function parseLoginPasswords(text: string): readonly [LoginPassword, ...LoginPassword[]] {
  const [, login, password, otherLogin, otherPassword] = form.exec(text) ?? []
  if (login === undefined || password === undefined || login === otherLogin) return [{ login: 'a', password: text }]
  const first = { login: login === 'a' ? 'a' : 'b', password } as const
  if (otherPassword === undefined) return [first]
  return [first, { login: otherLogin === 'a' ? 'a' : 'b', password: otherPassword }]
}

/** Returns the password of each login; undefined for a closed login. */
export function loginsOf(text: string): Readonly<Record<Login, string | undefined>> {
  const passwords = parseLoginPasswords(text)
  const of = (login: Login): string | undefined => passwords.find((each) => each.login === login)?.password
  return { a: of('a'), b: of('b') }
}

/** Formats passwords for `parseLoginPasswords`, the one in use first. */
export function formatLoginPasswords(passwords: readonly LoginPassword[]): string {
  return passwords.map(({ login, password }) => `${login}:${password}`).join(',')
}
