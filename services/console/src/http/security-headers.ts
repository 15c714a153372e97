import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'

/** What answers may do in a browser that are no pages: nothing. */
const inertPolicy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/**
 * What a page may do: run the scripts that carry its nonce and what those load, speak to this origin, and no more. Styles
 * come from files of ours or carry the nonce; nothing inline runs.
 */
export function pagePolicy(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}' 'strict-dynamic'`,
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "object-src 'none'",
    "frame-ancestors 'none'",
    // No text becomes script or markup, also by mistake (Trusted Types). The one policy is in web/src/trusted-types.ts.
    "require-trusted-types-for 'script'",
    'trusted-types default',
  ].join('; ')
}

const permissions = [
  'accelerometer=()',
  'camera=()',
  'clipboard-read=()',
  'clipboard-write=(self)',
  'display-capture=()',
  'geolocation=()',
  'gyroscope=()',
  'magnetometer=()',
  'microphone=()',
  'payment=()',
  'usb=()',
].join(', ')

/** Two years; the ending that browsers' preload lists ask for is left to the owner of the domain. */
const transportSecurity = 'max-age=63072000; includeSubDomains'

/** Gives every answer, also a refusal, the headers that keep browsers from doing more with it than is meant. */
export function secureAnswers(
  app: FastifyInstance,
  { isSecure, basePath }: Pick<Config, 'isSecure' | 'basePath'>,
): void {
  // Below a path the host belongs to others, who decide about all of it.
  const ownsHost = isSecure && basePath === ''
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers({
      'content-security-policy': inertPolicy,
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'origin-agent-cluster': '?1',
      'permissions-policy': permissions,
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      // Files whose name is their content say otherwise.
      'cache-control': 'no-store',
      ...(ownsHost ? { 'strict-transport-security': transportSecurity } : {}),
    })
  })
}
