import type { Logger, Registry } from '@postern/service-kit'
import { Counter } from '@prometheus-io/client'
import type { SignedEnd } from './end/store.ts'

/** `contradicted`: the log or its signature does not match. `unknown_key`: no published key signed it. */
export type ReportBadEnd = (doubt: 'contradicted' | 'unknown_key', tenantId: string, signed: SignedEnd) => void

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
    // The signature is lost once a new end replaces it.
    const fields = { tenant_id: tenantId, position, day, expected_root: root, found_root: found, jws }
    if (doubt === 'contradicted') logger.error({ event: 'log_contradicted', ...fields })
    else logger.warn({ event: 'log_end_of_unknown_key', ...fields })
  }
}
