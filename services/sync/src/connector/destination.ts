import type { Connector, InputError } from '@postern/contracts'
import type { SourceType } from '../source/types.ts'

type Config = Connector['config']

const members = ['engine', 'host', 'port', 'encryption', 'ca', 'bind_dn', 'username'] as const

/**
 * Returns an error for each stored secret that a different server would get. A new path on the same origin is the same
 * source.
 */
export function findSecretsToSetAgain(
  { configSchema }: SourceType,
  { before, next }: { readonly before: Config; readonly next: Config },
  { stored, given }: { readonly stored: readonly string[]; readonly given: readonly string[] },
): InputError[] {
  const of = (config: Config): string => destinationOf(configSchema.safeParse(config).data ?? config)
  const isAsked = next['url'] !== undefined || next['host'] !== undefined
  if (!isAsked || of(next) === of(before)) return []
  return stored
    .filter((name) => !given.includes(name))
    .map((name) => ({
      pointer: `/secrets/${name}`,
      code: 'secret_needed',
      detail: 'must be set again, or removed (null), because the source has changed',
    }))
}

function destinationOf(config: unknown): string {
  const auth = memberOf(config, 'auth')
  return JSON.stringify([
    ...members.map((name) => memberOf(config, name)),
    originOf(memberOf(config, 'url')),
    originOf(memberOf(auth, 'token_url')),
    memberOf(auth, 'kind'),
    memberOf(auth, 'username'),
    memberOf(auth, 'client_id'),
    memberOf(auth, 'name'),
  ])
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function originOf(url: unknown): unknown {
  return typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : url
}
