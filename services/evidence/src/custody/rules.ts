import type { Receipt } from '@postern/contracts'
import type { ScanOutcome } from '../scan/scanner.ts'

export interface CustodyEvent {
  readonly kind:
    | 'upload_begun'
    | 'upload_given_up'
    | 'received'
    | 'hashed'
    | 'scanned'
    | 'quarantined'
    | 'attached'
    | 'released'
    | 'reviewed'
    | 'rejected'
    | 'viewed'
    | 'legal_hold_set'
    | 'legal_hold_lifted'
    | 'purged'
  readonly detail: Readonly<Record<string, unknown>>
}

export function eventsOfFile(
  { sha256, size_bytes }: Pick<Receipt, 'sha256' | 'size_bytes'>,
  scan: ScanOutcome,
  procedureIds: readonly string[],
): readonly CustodyEvent[] {
  return [
    { kind: 'received', detail: { size_bytes } },
    { kind: 'hashed', detail: { sha256 } },
    ...eventsOfScan(scan),
    ...eventsOfAttachment(procedureIds),
  ]
}

export function eventsOfAttachment(procedureIds: readonly string[]): readonly CustodyEvent[] {
  return procedureIds.length === 0 ? [] : [{ kind: 'attached', detail: { test_procedure_ids: procedureIds } }]
}

function eventsOfScan(scan: ScanOutcome): readonly CustodyEvent[] {
  switch (scan.result) {
    case 'not_configured':
      return []
    case 'clean':
    case 'limits_exceeded':
      return [{ kind: 'scanned', detail: scan }]
    case 'infected':
      return [
        { kind: 'scanned', detail: scan },
        { kind: 'quarantined', detail: { malware: scan.malware } },
      ]
    default:
      return scan satisfies never
  }
}
