/** A secret, because it contains passwords. */
export interface RedisAddress {
  readonly mode: 'single' | 'sentinel' | 'cluster'
  readonly isEncrypted: boolean
  readonly nodes: readonly { readonly host: string; readonly port: number }[]
  readonly user: string | undefined
  readonly password: string | undefined
  readonly group: string | undefined
  readonly sentinelPassword: string | undefined
}

const form =
  /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^:@/?#]*):([^@/?#]*)@)?([^@/?#]+)(?:\/([A-Za-z0-9._-]*))?(?:\?sentinel_password=([^&#]+))?$/
const nodeForm = /^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?$/

/**
 * `redis://user:password@host:port`, `redis+sentinel://user:password@sentinel:port,…/group?sentinel_password=…` or
 * `redis+cluster://user:password@node:port,…`, also with `rediss` for TLS; otherwise undefined.
 */
export function parseRedisAddress(text: string): RedisAddress | undefined {
  const [, scheme, kind, user = '', password = '', hosts = '', path = '', sentinelPassword = ''] = form.exec(text) ?? []
  if (scheme === undefined) return undefined
  const mode = kind === 'sentinel' || kind === 'cluster' ? kind : 'single'
  const nodes = hosts.split(',').map((host) => nodeOf(host, mode === 'sentinel' ? 26_379 : 6379))
  const known = nodes.flatMap((node) => node ?? [])
  if (known.length !== nodes.length || (mode === 'single' && nodes.length > 1)) return undefined
  if (mode === 'sentinel' ? path === '' : path !== '' && !(mode === 'single' && path === '0')) return undefined
  if (mode !== 'sentinel' && sentinelPassword !== '') return undefined
  try {
    return {
      mode,
      isEncrypted: scheme === 'rediss',
      nodes: known,
      user: textOf(user),
      password: textOf(password),
      group: mode === 'sentinel' ? path : undefined,
      sentinelPassword: textOf(sentinelPassword),
    }
  } catch {
    return undefined
  }
}

function nodeOf(text: string, usualPort: number): { host: string; port: number } | undefined {
  const [, host, port] = nodeForm.exec(text) ?? []
  const number = port === undefined ? usualPort : Number(port)
  if (host === undefined || number < 1 || number > 65_535) return undefined
  return { host: host.replace(/^\[|\]$/g, ''), port: number }
}

function textOf(escaped: string): string | undefined {
  return escaped === '' ? undefined : decodeURIComponent(escaped)
}
