import { randomBytes } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { pagePolicy } from '../http/security-headers.ts'
import type { Refusal } from '../sign-in/complete.ts'

const messages: Readonly<Record<Refusal, { status: number; title: string; text: string }>> = {
  not_ours: {
    status: 400,
    title: 'This sign-in has expired',
    text: 'It took too long, started in another browser, or was already completed. Sign in again.',
  },
  cancelled: {
    status: 403,
    title: 'You are not signed in',
    text: 'Your sign-in provider reports that the sign-in was cancelled or rejected.',
  },
  not_valid: {
    status: 403,
    title: 'You are not signed in',
    text: 'The response of your sign-in provider could not be verified. Try again or ask your administrator.',
  },
  ended_by_provider: {
    status: 403,
    title: 'You are not signed in',
    text: 'Your sign-in provider ended this sign-in before it was complete. Sign in again.',
  },
  no_role: {
    status: 403,
    title: 'You have no role in Postern',
    text: 'Your account does not have the role viewer, auditor or admin. Ask your administrator for one.',
  },
  tenant_suspended: {
    status: 403,
    title: 'Your organization is suspended',
    text: 'Your organization cannot use Postern until the platform operator resumes it.',
  },
  tenant_not_granted: {
    status: 403,
    title: 'You are not signed in',
    text: 'Your account no longer has access to this organization. Sign in again to see those that you have.',
  },
  person_inactive: {
    status: 403,
    title: 'Your access has ended',
    text: 'The directory of your organization says that you are no longer active. If that is wrong, ask your administrator.',
  },
  person_unknown: {
    status: 403,
    title: 'You are not signed in',
    text: 'You are not in the directory of your organization yet. Ask your administrator to add you.',
  },
  token_refused: {
    status: 403,
    title: 'Your organization is not registered',
    text: 'Your sign-in provider confirmed your account, but its organization is not registered in Postern. Ask your administrator.',
  },
  provider_unavailable: {
    status: 503,
    title: 'The sign-in provider is not available',
    text: 'You are not signed in. Try again in a moment.',
  },
  gateway_unavailable: {
    status: 503,
    title: 'Postern cannot sign you in at the moment',
    text: 'Your sign-in provider confirmed your account, but the gateway is not available. Try again in a moment.',
  },
}

/** What the person can tell the operator, who finds the reference in the log. */
export interface Cause {
  readonly code: string
  readonly reference: string
  readonly explanation: string | undefined
}

export function answerMessage(reply: FastifyReply, reason: Refusal, returnTo = '/', cause?: Cause): FastifyReply {
  const { status, title, text } = messages[reason]
  const retry = `login?return_to=${encodeURIComponent(returnTo)}`
  const more = cause === undefined ? '' : describeCause(cause)
  return answerPage(reply, status, title, `<p>${text}</p>${more}<a class="button" href="${retry}">Sign in again</a>`)
}

function describeCause({ code, reference, explanation }: Cause): string {
  const plain = explanation === undefined ? '' : `<p>${escape(explanation)}</p>`
  return `${plain}<p>For your administrator: <code>${escape(code)}</code>, reference <code>${escape(reference)}</code></p>`
}

export function answerProviders(reply: FastifyReply, names: readonly string[], returnTo: string): FastifyReply {
  const links = names.map(
    (name, at) =>
      `<a class="button" href="login?provider=${at}&amp;return_to=${encodeURIComponent(returnTo)}">${escape(name)}</a>`,
  )
  return answerPage(reply, 200, 'Where do you sign in?', links.join(''))
}

/** Asks a person with several tenants to choose one. */
export function answerTenants(
  reply: FastifyReply,
  tenants: readonly { readonly id: string; readonly name: string }[],
): FastifyReply {
  const buttons = tenants.map(
    ({ id, name }) => `<button class="button" name="tenant" value="${escape(id)}">${escape(name)}</button>`,
  )
  // With no-referrer, browsers send `Origin: null` with the form.
  reply.header('referrer-policy', 'strict-origin')
  return answerPage(
    reply,
    200,
    'Where do you want to work?',
    `<form method="post" action="tenant">${buttons.join('')}</form>`,
  )
}

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0) ?? 0};`)
}

export function answerUnconfigured(reply: FastifyReply): FastifyReply {
  return answerPage(
    reply,
    503,
    'Sign-in is not configured',
    `<p>Nobody can sign in to this console yet: its settings <code>POSTERN_SIGN_IN_FILE</code> and <code>POSTERN_OIDC_ISSUER</code> are empty.</p>
<p>Set one of them, here and at the gateway, and restart both. Integrations with an API key are not affected.</p>`,
  )
}

export function answerUnbuilt(reply: FastifyReply, basePath: string): FastifyReply {
  const links = `<p><a href="${basePath}/auth/login">Sign in</a> · <a href="${basePath}/auth/session">Session</a></p>`
  return answerPage(reply, 200, 'Postern', `<p>The pages of the console are not built yet.</p>${links}`)
}

/** The same as in web/src/shell/brand.tsx. */
const mark = `<svg width="44" height="44" viewBox="0 0 32 32" fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round" aria-hidden="true"><rect width="32" height="32" rx="8" fill="#0b6b58" stroke="none"/><path d="M9 25V14.5a7 7 0 0 1 14 0V25M16 17v5"/><circle cx="16" cy="15.2" r="2.2" fill="#fff" stroke="none"/></svg>`

/** `body` must be trusted markup. */
function answerPage(reply: FastifyReply, status: number, title: string, body: string): FastifyReply {
  const nonce = randomBytes(16).toString('base64')
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Postern</title>
<style nonce="${nonce}">
  :root { color-scheme: light dark; font: 15px/1.5 -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif;
    color: light-dark(#12201c, #e9f0ed); background: light-dark(#f6f8f7, #0d1211) }
  body { display: grid; place-items: center; min-height: 100vh; margin: 0; padding: 1rem; box-sizing: border-box }
  main { display: grid; gap: .8rem; box-sizing: border-box; width: min(420px, 100%); padding: 36px; border-radius: 16px;
    border: 1px solid light-dark(#e0e6e3, #27322f); background: light-dark(#fff, #151c1a);
    box-shadow: 0 12px 40px light-dark(rgb(16 32 27 / 12%), rgb(0 0 0 / 60%)) }
  h1 { margin: 0; font-size: 1.5rem; line-height: 1.25; letter-spacing: -.015em }
  p { margin: 0; color: light-dark(#465651, #b0beb9) }
  code { overflow-wrap: anywhere; color: light-dark(#12201c, #e9f0ed) }
  a { color: light-dark(#085746, #74dcc3) }
  form { display: grid }
  button { font: inherit; border: 0; cursor: pointer }
  .button { margin-top: .6rem; padding: 9px 16px; border-radius: 8px; font-weight: 560; text-align: center;
    text-decoration: none; color: light-dark(#fff, #04211a); background: light-dark(#0b6b58, #56cfb3) }
</style>
<main>${mark}<h1>${title}</h1>${body}</main>
</html>
`
  return reply
    .code(status)
    .header('content-security-policy', pagePolicy(nonce))
    .type('text/html; charset=utf-8')
    .send(html)
}
