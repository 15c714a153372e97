/**
 * Which of the two logins of a role: `a` is named as the role, `b` is its second one. PostgreSQL keeps one password for a login, so
 * that one is replaced while services run by going from one login to the other and back.
 */
export type Login = 'a' | 'b'

export interface LoginPassword {
  readonly login: Login
  readonly password: string
}

const form = /^([ab]):([A-Za-z0-9_-]{16,})(?:,([ab]):([A-Za-z0-9_-]{16,}))?$/

/**
 * Reads the passwords of a role: one, which is that of login `a`, or what a rotation makes of it, `a:PASSWORD,b:PASSWORD`.
 * The first is what services log in with, the other one is accepted too. Any other text is one password.
 */
export function parseLoginPasswords(text: string): readonly [LoginPassword, ...LoginPassword[]] {
  const [, login, password, otherLogin, otherPassword] = form.exec(text) ?? []
  if (login === undefined || password === undefined || login === otherLogin) return [{ login: 'a', password: text }]
  const first = { login: login === 'a' ? 'a' : 'b', password } as const
  if (otherPassword === undefined) return [first]
  return [first, { login: otherLogin === 'a' ? 'a' : 'b', password: otherPassword }]
}

/** The password of each login; undefined for one that nobody may log in by. */
export function loginsOf(text: string): Readonly<Record<Login, string | undefined>> {
  const passwords = parseLoginPasswords(text)
  const of = (login: Login): string | undefined => passwords.find((each) => each.login === login)?.password
  return { a: of('a'), b: of('b') }
}

/** The text of passwords, which `parseLoginPasswords` reads: the first is what services log in with. */
export function formatLoginPasswords(passwords: readonly LoginPassword[]): string {
  return passwords.map(({ login, password }) => `${login}:${password}`).join(',')
}
