import { hash } from 'node:crypto'
import type { DemoPerson } from './people.ts'

const style = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { margin: 0 }
  .warning { background: #fde68a; color: #422006; padding: .75rem 1rem; text-align: center; font-weight: 600 }
  main { max-width: 34rem; margin: 0 auto; padding: 2rem 1rem }
  h1 { font-size: 1.5rem; line-height: 1.25 }
  h2 { font-size: 1rem; margin: 1.5rem 0 .5rem }
  button { display: block; width: 100%; margin: .5rem 0; padding: .75rem 1rem; text-align: start; font: inherit;
    border: 1px solid #8888; border-radius: .5rem; background: transparent; color: inherit; cursor: pointer }
  button:hover, button:focus-visible { border-color: currentColor }
  small { display: block; opacity: .75 }
`

const warning = 'Development sign-in, not for production: anybody may choose anybody here.'

export const pageHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
  'content-type': 'text/html; charset=utf-8',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

export function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Development sign-in</title>
<style>${style}</style>
<div class="warning" role="note">${warning}</div>
<main><h1>${title}</h1>${body}</main>
</html>
`
}

export function peoplePage(people: readonly DemoPerson[], action: string): string {
  const tenants = [...new Set(people.map(({ tenant }) => tenant))]
  const group = (tenant: string): string => {
    const buttons = people
      .filter((person) => person.tenant === tenant)
      .map(
        ({ id, name, email, roles }) =>
          `<button name="person" value="${escape(id)}">${escape(name)}<small>${escape(email)} · ${escape(roles.join(', '))}</small></button>`,
      )
    return `<h2>${escape(tenant)}</h2>${buttons.join('')}`
  }
  return page('Who are you?', `<form method="post" action="${escape(action)}">${tenants.map(group).join('')}</form>`)
}

const submit = "document.getElementById('op.logoutForm').submit()"

/** Allows the one script of the page. */
export const signOutHeaders: Readonly<Record<string, string>> = {
  ...pageHeaders,
  'content-security-policy': `${pageHeaders['content-security-policy']}; script-src 'sha256-${hash('sha256', submit, 'base64')}'`,
}

/** The console has shown whose session it is, so nobody is asked again. `form` is the provider's. */
export function signOutPage(form: string): string {
  const answer = '<input type="hidden" form="op.logoutForm" name="logout" value="yes">'
  const button = '<noscript><button form="op.logoutForm">Sign out</button></noscript>'
  return page('Signing out', `${form}${answer}${button}<script>${submit}</script>`)
}

/** Without an ID token, another site may have sent the person here (OpenID Connect RP-Initiated Logout, section 2). */
export function askSignOutPage(form: string): string {
  const button = '<button form="op.logoutForm" name="logout" value="yes" autofocus>Sign out</button>'
  return page('Sign out?', `${form}${button}<button form="op.logoutForm">Stay signed in</button>`)
}

export function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0) ?? 0};`)
}
