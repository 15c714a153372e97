/**
 * Options of Node by service, as the compose file and the manifests set them. Decision 0030 says why.
 * The gateway and sync collect what has passed through them; other services limit the space of young objects.
 */
const flags: Readonly<Record<string, readonly string[]>> = {
  gateway: ['--expose-gc', '--no-allocation-site-pretenuring'],
  evidence: ['--max-semi-space-size=2'],
  findings: ['--max-semi-space-size=2'],
  universe: ['--max-semi-space-size=2'],
  sync: ['--expose-gc', '--max-semi-space-size=8'],
}

/** The options of Node that a service is started with. */
export function nodeFlagsOf(service: string): readonly string[] {
  return flags[service] ?? []
}
