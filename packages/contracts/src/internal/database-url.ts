/** A secret: it contains the password. */
export interface DatabaseUrl {
  /** Connection strings in order of preference. */
  readonly servers: readonly string[]
  /** `anything` needs no check. */
  readonly requires: 'anything' | 'primary' | 'read-write'
}

/** Does not quote the connection string. */
export class DatabaseUrlError extends Error {
  override readonly name = 'DatabaseUrlError'
}

const form = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s
const queryForm = /\?[^#]*/

/** For one or several hosts (PostgreSQL 18 documentation, 32.1.1.3). Throws a DatabaseUrlError. */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const { before, hosts, after } = split(text)
  const query = new URLSearchParams(queryForm.exec(after)?.[0])
  const parameter = (name: string): string | undefined => query.getAll(name).at(-1)
  const requires = parameter('target_session_attrs')
  const [named, ports] = [parameter('host'), parameter('port')]
  let authorities: readonly string[] = hosts.split(',')
  let rest = after
  if (named?.includes(',') === true) {
    authorities = authoritiesOf(named.split(','), ports?.split(',') ?? [])
    for (const name of ['host', 'port']) query.delete(name)
    rest = after.replace(queryForm, () => `?${query.toString()}`)
  }
  const servers = authorities.map((authority) => `${before}${authority}${rest}`)
  const areNamed = authorities.length === 1 || !authorities.includes('')
  if (!areNamed || !servers.every((server) => URL.canParse(server)))
    throw new DatabaseUrlError('must name each host as host or host:port, with commas between several')
  return { servers, requires: requirementOf(requires, servers.length > 1) }
}

function authoritiesOf(hosts: readonly string[], ports: readonly string[]): string[] {
  if (![0, 1, hosts.length].includes(ports.length))
    throw new DatabaseUrlError('must have one port for all hosts, or one for each')
  return hosts.map((host, index) => {
    const port = ports[index] ?? ports[0] ?? ''
    const name = host.includes(':') ? `[${host}]` : encodeURIComponent(host)
    return port === '' ? name : `${name}:${port}`
  })
}

/** `change` does not see the hosts. */
export function changeDatabaseUrl(text: string, change: (url: URL) => void): string {
  const { before, hosts, after } = split(text)
  const url = new URL(`${before}hosts${after}`)
  change(url)
  const changed = split(url.href)
  return `${changed.before}${hosts}${changed.after}`
}

function split(text: string): { readonly before: string; readonly hosts: string; readonly after: string } {
  const [, before, hosts = '', after = ''] = form.exec(text) ?? []
  if (before === undefined) throw new DatabaseUrlError('must be a URL that begins with postgres:// or postgresql://')
  return { before, hosts, after }
}

/** Most of several hosts are standbys, so their state must be checked. */
function requirementOf(wanted: string | undefined, areSeveral: boolean): DatabaseUrl['requires'] {
  switch (wanted) {
    case undefined:
    case 'any':
      return areSeveral ? 'primary' : 'anything'
    case 'primary':
    case 'read-write':
      return wanted
    default:
      throw new DatabaseUrlError(
        'must have target_session_attrs=read-write, primary or any, because Postern writes to the database',
      )
  }
}
