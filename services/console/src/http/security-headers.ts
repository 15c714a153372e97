import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'

const inertPolicy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

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
    // The only policy is in web/src/trusted-types.ts.
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

/** Two years. Only the owner of the domain may ask browsers to preload it. */
const transportSecurity = 'max-age=63072000; includeSubDomains'

export function addSecurityHeaders(
  app: FastifyInstance,
  { isSecure, basePath }: Pick<Config, 'isSecure' | 'basePath'>,
): void {
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
      'cache-control': 'no-store',
      ...(ownsHost ? { 'strict-transport-security': transportSecurity } : {}),
    })
  })
}
