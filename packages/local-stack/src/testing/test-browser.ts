import { request } from 'undici'

export interface PageAnswer {
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

export interface VisitOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** A browser for sign-ins: cookies by host, and redirects. It runs no scripts. */
export interface TestBrowser {
  readonly cookies: Map<string, string>
  send(url: string, options?: VisitOptions): Promise<PageAnswer>
  /** Navigates and follows redirects, until `until` returns true for an address. */
  visit(url: string, options?: VisitOptions & { readonly until?: (url: string) => boolean }): Promise<PageAnswer>
  /** Signs a person of the development provider in at a console. */
  signIn(
    consoleUrl: string,
    personId: string,
    options?: { readonly returnTo?: string; readonly until?: (url: string) => boolean },
  ): Promise<PageAnswer>
}

const maxRedirects = 20

export function createTestBrowser(): TestBrowser {
  const cookies = new Map<string, string>()

  async function send(url: string, { method = 'GET', headers = {}, body }: VisitOptions = {}): Promise<PageAnswer> {
    const { host } = new URL(url)
    const own = [...cookies].filter(([name]) => name.startsWith(`${host} `))
    const cookie = own.map(([name, value]) => `${name.slice(host.length + 1)}=${value}`).join('; ')
    const answer = await request(url, {
      method,
      headers: { accept: 'text/html', ...(cookie === '' ? {} : { cookie }), ...headers },
      body: body ?? null,
    })
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) keep(host, line)
    return { url, status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
  }

  function keep(host: string, line: string): void {
    const [pair = ''] = line.split(';')
    const at = pair.indexOf('=')
    const [name, value] = [`${host} ${pair.slice(0, at)}`, pair.slice(at + 1)]
    if (value === '' || /max-age=0|expires=Thu, 01 Jan 1970/i.test(line)) cookies.delete(name)
    else cookies.set(name, value)
  }

  const visit: TestBrowser['visit'] = async (url, { until = () => false, ...options } = {}) => {
    let answer = await send(url, options)
    for (let count = 0; count < maxRedirects; count += 1) {
      const { location } = answer.headers
      if (answer.status < 300 || answer.status > 399 || typeof location !== 'string') return answer
      const next = new URL(location, answer.url).href
      if (until(next)) return { ...answer, url: next }
      answer = await send(next)
    }
    throw new Error(`more than ${maxRedirects} redirects from ${url}`)
  }

  return {
    cookies,
    send,
    visit,
    signIn: async (consoleUrl, personId, { returnTo = '/', until } = {}) => {
      const ending = until === undefined ? {} : { until }
      const chooser = await visit(`${consoleUrl}/auth/login?return_to=${encodeURIComponent(returnTo)}`, ending)
      const [, action] = /<form method="post" action="(\/sign-in\/[^"]+)"/.exec(chooser.text) ?? []
      // The provider does not ask a signed-in person again.
      if (action === undefined) return chooser
      return await visit(new URL(action, chooser.url).href, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ person: personId }).toString(),
        ...ending,
      })
    },
  }
}
