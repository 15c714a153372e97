import type { Logger, Registry } from '@postern/service-kit'
import { Counter } from '@prometheus-io/client'
import type { SignedEnd } from './store.ts'

/**
 * Told of a signed end that does not hold. `contradicted`: it is not what the log is, or nobody has signed it; nothing goes on.
 * `unknown_key`: it says what the log is, but is signed by no published key.
 */
export type EndWatch = (doubt: 'contradicted' | 'unknown_key', tenantId: string, signed: SignedEnd) => void

/** Counts ends that do not hold, and logs what was expected and what was found. */
export function watchEnds({ logger, metrics }: { readonly logger: Logger; readonly metrics: Registry }): EndWatch {
  const doubted = new Counter({
    name: 'postern_findings_log_ends_doubted_total',
    help: 'Signed ends of remediation logs that are not what the log is, or that no published key has signed',
    labelNames: ['doubt'],
    registers: [metrics],
  })
  for (const doubt of ['contradicted', 'unknown_key']) doubted.inc({ doubt }, 0)
  return (doubt, tenantId, { position, root, day, found, jws }) => {
    doubted.inc({ doubt })
    // The signature is what is left of the end, once another is in its place.
    const said = { tenant_id: tenantId, position, day, expected_root: root, found_root: found, jws }
    if (doubt === 'contradicted') logger.error({ event: 'log_contradicted', ...said })
    else logger.warn({ event: 'log_end_of_unknown_key', ...said })
  }
}
