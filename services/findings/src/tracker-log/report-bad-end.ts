import type { Logger, Registry } from '@postern/service-kit'
import { Counter } from '@prometheus-io/client'
import type { SignedEnd } from './store.ts'

/**
 * Reports a signed end that cannot be trusted. `contradicted`: it differs from the log, or its signature is invalid.
 * `unknown_key`: it matches the log, but no published key signed it.
 */
export type ReportBadEnd = (doubt: 'contradicted' | 'unknown_key', tenantId: string, signed: SignedEnd) => void

/** Creates a reporter that counts such ends and logs the expected and the found root. */
export function createBadEndReporter({
  logger,
  metrics,
}: {
  readonly logger: Logger
  readonly metrics: Registry
}): ReportBadEnd {
  const doubted = new Counter({
    name: 'postern_findings_log_ends_doubted_total',
    help: 'Signed ends of remediation logs that differ from the log or that no published key signed',
    labelNames: ['doubt'],
    registers: [metrics],
  })
  for (const doubt of ['contradicted', 'unknown_key']) doubted.inc({ doubt }, 0)
  return (doubt, tenantId, { position, root, day, found, jws }) => {
    doubted.inc({ doubt })
    // Logged, because the signature is lost once a new end replaces it.
    const said = { tenant_id: tenantId, position, day, expected_root: root, found_root: found, jws }
    if (doubt === 'contradicted') logger.error({ event: 'log_contradicted', ...said })
    else logger.warn({ event: 'log_end_of_unknown_key', ...said })
  }
}
