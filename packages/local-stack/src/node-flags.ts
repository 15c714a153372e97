/** As in the compose file and the manifests (decision 0030). */
const flags: Readonly<Record<string, readonly string[]>> = {
  gateway: ['--expose-gc', '--no-allocation-site-pretenuring'],
  evidence: ['--max-semi-space-size=2'],
  findings: ['--max-semi-space-size=2'],
  universe: ['--max-semi-space-size=8'],
  sync: ['--expose-gc', '--max-semi-space-size=8'],
}

export function nodeFlagsOf(service: string): readonly string[] {
  return flags[service] ?? []
}
