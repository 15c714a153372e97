import { randomBytes } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { pagePolicy } from '../http/security-headers.ts'
import type { Refusal } from '../sign-in/complete.ts'

const messages: Readonly<Record<Refusal, { status: number; title: string; text: string }>> = {
  not_ours: {
    status: 400,
    title: 'This sign-in has expired',
    text: 'It was begun too long ago, in another browser, or was finished before. Nothing has happened.',
  },
  cancelled: {
    status: 403,
    title: 'You are not signed in',
    text: 'Your sign-in provider says that the sign-in was cancelled or refused.',
  },
  not_valid: {
    status: 403,
    title: 'You are not signed in',
    text: 'The answer of your sign-in provider could not be verified.',
  },
  no_role: {
    status: 403,
    title: 'You have no role in Postern',
    text: 'Your account is known, but it has none of the roles viewer, auditor and admin. Ask your administrator for one.',
  },
  tenant_suspended: {
    status: 403,
    title: 'Your organization is suspended',
    text: 'Nobody of your organization can use Postern until the platform resumes it.',
  },
  token_refused: {
    status: 403,
    title: 'Your account is not known here',
    text: 'Your sign-in provider vouches for you, but not for an organization that Postern knows.',
  },
  provider_unavailable: {
    status: 503,
    title: 'The sign-in provider does not answer',
    text: 'Nothing has happened. Try again in a moment.',
  },
  gateway_unavailable: {
    status: 503,
    title: 'Postern cannot sign you in now',
    text: 'Your sign-in provider has vouched for you, but the gateway does not answer. Try again in a moment.',
  },
}

/** Answers with a page that says why nobody was signed in, and how to try again. */
export function answerMessage(reply: FastifyReply, reason: Refusal, returnTo = '/'): FastifyReply {
  const { status, title, text } = messages[reason]
  const retry = `/auth/login?return_to=${encodeURIComponent(returnTo)}`
  return answerPage(reply, status, title, `<p>${text}</p><p><a href="${retry}">Sign in again</a></p>`)
}

/** What is shown as long as the pages have not been built. */
export function answerUnbuilt(reply: FastifyReply): FastifyReply {
  const links = '<p><a href="/auth/login">Sign in</a> · <a href="/auth/session">Session</a></p>'
  return answerPage(reply, 200, 'Postern', `<p>The pages of the console are not built yet.</p>${links}`)
}

/** A page without scripts. `body` is trusted: it is made of the texts above. */
function answerPage(reply: FastifyReply, status: number, title: string, body: string): FastifyReply {
  const nonce = randomBytes(16).toString('base64')
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Postern</title>
<style nonce="${nonce}">
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { display: grid; place-content: center; min-height: 100vh; margin: 0; padding: 1rem; box-sizing: border-box }
  main { max-width: 30rem }
  h1 { font-size: 1.5rem; line-height: 1.25 }
</style>
<main><h1>${title}</h1>${body}</main>
</html>
`
  return reply
    .code(status)
    .header('content-security-policy', pagePolicy(nonce))
    .type('text/html; charset=utf-8')
    .send(html)
}
