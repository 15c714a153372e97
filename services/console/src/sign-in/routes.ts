import { problem } from '@postern/service-kit'
import { explainRefusal, refusalFields } from '@postern/sign-in'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { forwardedFor } from '../api/forwarded-for.ts'
import type { SignInRequest } from '../api/gateway.ts'
import type { Config } from '../config.ts'
import type { Deps, SignIn } from '../deps.ts'
import { parseCookies } from '../http/cookies.ts'
import { assertCsrfToken, assertSameOrigin } from '../http/same-origin.ts'
import { findSession } from '../http/session-guard.ts'
import { answerMessage, answerProviders, answerTenants } from '../pages/message-page.ts'
import type { Session } from '../session/content.ts'
import { randomId } from '../session/sessions.ts'
import type { Owner } from '../session/store.ts'
import {
  type Attempt,
  attemptId,
  attemptLifeMs,
  maxAttempts,
  newAttempt,
  openAttempt,
  safeReturnTo,
  sealAttempt,
} from './attempts.ts'
import { choiceLifeMs, consumeChoice, storeChoice } from './choice.ts'
import { type SignInOutcome, completeSignIn, openSession } from './complete.ts'
import { type LogoutNotice, logoutTokenLifeSeconds } from './logout-token.ts'
import { type Provider, ProviderUnavailable, findIssuer } from './provider.ts'

const loginQuery = z.object({
  return_to: z.string().optional().catch(undefined),
  /** The place of the provider in the settings, from 0. */
  provider: z.coerce.number().optional().catch(undefined),
})
const callbackQuery = z.object({ state: z.string().min(1).max(256) })
const choiceBody = z.object({ tenant: z.uuid() })
const choiceBodyLimit = 1024
const logoutBody = z.object({ logout_token: z.string() })
const logoutBodyLimit = 16_384
/** How long a person has to sign out at the provider. */
const signOutLifeMs = 600_000

export function signInRoutes(
  app: FastifyInstance,
  deps: Omit<Deps, 'signIn'> & SignIn,
  { origin, url: consoleUrl, explainsSignIn }: Pick<Config, 'origin' | 'url' | 'explainsSignIn'>,
): void {
  const { cookies, providers, sessions, store, logger } = deps

  app.get('/auth/login', async (request, reply) => {
    const query = loginQuery.parse(request.query)
    const returnTo = safeReturnTo(query.return_to, origin)
    const all = [...providers.values()]
    const provider = all.length === 1 ? all[0] : all[query.provider ?? -1]
    if (provider === undefined) {
      return answerProviders(
        reply,
        all.map(({ settings }) => settings.name),
        returnTo,
      )
    }
    const attempt = newAttempt({ issuer: provider.settings.issuer, begunAt: deps.now(), returnTo })
    try {
      const url = await provider.signInUrl(attempt)
      const unfinished = attemptCookies(request)
      if (unfinished.length >= maxAttempts)
        for (const name of unfinished) reply.header('set-cookie', cookies.clear(name))
      const cookie = cookies.set(
        cookies.signIn(attemptId(attempt.state)),
        sealAttempt(deps.attemptSeal, attempt),
        attemptLifeMs / 1000,
      )
      return await reply.header('set-cookie', cookie).redirect(url.href, 303)
    } catch (error) {
      if (!(error instanceof ProviderUnavailable)) throw error
      const { refusal } = error
      const fields = refusal === undefined ? {} : refusalFields(refusal)
      const reference = request.id
      logger.error({
        event: 'provider_unavailable',
        request_id: reference,
        provider: provider.settings.name,
        ...fields,
        err: error,
      })
      const explanation = explainsSignIn && refusal !== undefined ? explainRefusal(refusal) : undefined
      const code = refusal?.code ?? 'provider_unavailable'
      return answerMessage(reply, 'provider_unavailable', returnTo, { code, reference, explanation })
    }
  })

  app.get('/auth/callback', async (request, reply) => {
    const attempt = consumeAttempt(request, reply)
    // The sign-in started with this provider (mix-up attack, RFC 9700 §4.4).
    const provider = attempt === undefined ? undefined : providers.get(attempt.issuer)
    if (attempt === undefined || provider === undefined || !(await store.markOnce(attempt.state, attemptLifeMs))) {
      deps.count('not_ours')
      logger.info({ event: 'sign_in_refused', reason: 'not_ours' })
      return answerMessage(reply, 'not_ours', attempt?.returnTo)
    }
    const parts = { ...deps, provider, signIn: signInRequest(request) }
    const outcome = await completeSignIn(new URL(request.raw.url ?? '/', origin), attempt, parts)
    return await answerOutcome(request, reply, outcome, attempt.returnTo)
  })

  // The page that lists a person's tenants posts its form here.
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    addFormParser(scope, choiceBodyLimit)
    scope.post('/auth/tenant', async (request, reply) => {
      assertSameOrigin(request, origin)
      const ticket = parseCookies(request.headers.cookie).get(cookies.choice)
      reply.header('set-cookie', cookies.clear(cookies.choice))
      const body = choiceBody.safeParse(request.body)
      const choice = await consumeChoice(store, ticket)
      const provider = choice === undefined ? undefined : providers.get(choice.issuer)
      if (choice === undefined || provider === undefined || !body.success) {
        deps.count('not_ours')
        logger.info({ event: 'sign_in_refused', reason: 'not_ours' })
        return answerMessage(reply, 'not_ours', choice?.returnTo)
      }
      const outcome = await openSession(choice, body.data.tenant, {
        ...deps,
        provider,
        signIn: signInRequest(request),
      })
      return await answerOutcome(request, reply, outcome, choice.returnTo)
    })
  })

  const answerLogout = async (request: FastifyRequest, reply: FastifyReply): Promise<{ redirect: string }> => {
    assertSameOrigin(request, origin)
    const session = await findSession(request, deps)
    if (session !== undefined) {
      assertCsrfToken(request, session)
      await sessions.end(session.id)
      logger.info({ event: 'signed_out', tenant_id: session.content.tenant.id })
      const { refresh } = session.content.tokens
      const failure = refresh === undefined ? undefined : await providerOf(session)?.revoke(refresh)
      if (failure !== undefined) logger.warn({ event: 'token_revocation_failed', err: failure })
    }
    reply.header('set-cookie', cookies.clear(cookies.session))
    if (session === undefined || (await providerOf(session)?.hasSignOut()) !== true)
      return { redirect: `${consoleUrl}/` }
    const { id: idToken } = session.content.tokens
    if (idToken !== undefined) {
      const ticket = randomId()
      await store.putOnce(ticket, idToken, signOutLifeMs)
      reply.header('set-cookie', cookies.set(cookies.signOut, ticket, signOutLifeMs / 1000))
    }
    return { redirect: `${consoleUrl}/auth/provider-logout` }
  }

  // Redirects from here, so that no page or script sees the ID token.
  app.get('/auth/provider-logout', async (request, reply) => {
    const ticket = parseCookies(request.headers.cookie).get(cookies.signOut)
    const idToken = ticket === undefined ? undefined : await store.takeOnce(ticket)
    const url = await findProvider(idToken)?.signOutUrl(idToken)
    reply.header('set-cookie', cookies.clear(cookies.signOut))
    return await reply.redirect(url?.href ?? `${consoleUrl}/`, 303)
  })
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume()
      done(null)
    })
    scope.post('/auth/logout', answerLogout)
  })

  // Called by the provider without a cookie; the signature authenticates it.
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    addFormParser(scope, logoutBodyLimit)
    scope.post('/auth/backchannel-logout', async (request) => {
      const body = logoutBody.safeParse(request.body)
      const token = body.success ? body.data.logout_token : ''
      const provider = providers.get(findIssuer(token) ?? '')
      const notice = await provider?.readLogoutToken(token).catch(toProblem)
      const mark = JSON.stringify([notice?.issuer, notice?.id])
      if (notice === undefined || (await store.isMarked(mark))) {
        logger.warn({ event: 'logout_notice_refused' })
        throw problem('bad_request', { detail: 'The logout token is invalid or was already used.' })
      }
      let ended = 0
      for (const owner of ownersOf(notice)) ended += await sessions.endOf(owner)
      // Marked last, so that the provider can repeat a notice that failed.
      await store.markOnce(mark, logoutTokenLifeSeconds * 2000)
      logger.info({ event: 'signed_out_by_provider', sessions: ended })
      return {}
    })
  })

  async function answerOutcome(
    request: FastifyRequest,
    reply: FastifyReply,
    outcome: SignInOutcome,
    returnTo: string,
  ): Promise<FastifyReply> {
    switch (outcome.kind) {
      case 'refused': {
        const { reason, cause } = outcome
        deps.count(reason)
        return answerMessage(reply, reason, returnTo, {
          code: cause?.code ?? reason,
          reference: request.id,
          explanation: explainsSignIn && cause !== undefined ? explainRefusal(cause) : undefined,
        })
      }
      case 'choice': {
        const ticket = await storeChoice(store, outcome.choice)
        reply.header('set-cookie', cookies.set(cookies.choice, ticket, choiceLifeMs / 1000))
        return answerTenants(reply, outcome.tenants)
      }
      case 'signed_in': {
        deps.count('signed_in')
        // A new id prevents session fixation, and nothing of another tenant is kept.
        const before = parseCookies(request.headers.cookie).get(cookies.session)
        if (before !== undefined) await sessions.end(before)
        return await reply
          .header('set-cookie', cookies.set(cookies.session, outcome.session.id))
          .redirect(consoleUrl + returnTo, 303)
      }
      default:
        return outcome satisfies never
    }
  }

  /** Without an ID token, returns the provider only if there is just one. */
  function findProvider(idToken: string | undefined): Provider | undefined {
    if (idToken !== undefined) return providers.get(findIssuer(idToken) ?? '')
    const [only, ...others] = providers.values()
    return others.length === 0 ? only : undefined
  }

  function providerOf({ content }: Session): Provider | undefined {
    return providers.get(content.issuer)
  }

  function attemptCookies(request: FastifyRequest): string[] {
    return [...parseCookies(request.headers.cookie).keys()].filter((name) => name.startsWith(cookies.signIn('')))
  }

  function consumeAttempt(request: FastifyRequest, reply: FastifyReply): Attempt | undefined {
    const query = callbackQuery.safeParse(request.query)
    if (!query.success) return undefined
    const { state } = query.data
    const name = cookies.signIn(attemptId(state))
    const sealed = parseCookies(request.headers.cookie).get(name)
    if (sealed === undefined) return undefined
    reply.header('set-cookie', cookies.clear(name))
    return openAttempt(deps.attemptSeal, sealed, state, deps.now())
  }
}

function signInRequest(request: FastifyRequest): SignInRequest {
  return { requestId: request.id, forwardedFor: forwardedFor(request) }
}

function addFormParser(scope: FastifyInstance, bodyLimit: number): void {
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  )
}

/** A notice with `sid` and `sub` ends this sign-in only (§2.4), and the person's sign-ins that have no `sid`. */
function ownersOf({ issuer, sid, subject }: LogoutNotice): Owner[] {
  const of = (kind: Owner['kind'], value: string | undefined): Owner[] =>
    value === undefined ? [] : [{ kind, issuer, value }]
  return sid === undefined ? of('subject', subject) : [...of('sid', sid), ...of('unnamed', subject)]
}

function toProblem(error: unknown): never {
  if (!(error instanceof ProviderUnavailable)) throw error
  throw problem('auth_unavailable', { retryAfterSeconds: 5, cause: error })
}
